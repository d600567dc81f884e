// `weir demo overlap`: the guides' example, depth first and breadth first, on devices of four generations, by their clocks.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <weir/copy.hpp>
#include <weir/launch.hpp>
#include <weir/memory.hpp>
#include <weir/sim.hpp>

#include "demo.hpp"

namespace tool {

namespace {

constexpr std::size_t streams = 2;
constexpr int columns = 40;

/// Times are milliseconds on the old devices, whose links move 1,000 bytes a microsecond, and a tenth of that on the H200.
struct Case {
  std::string_view name;
  int copy_in, block, blocks, copy_out;
};
constexpr Case cases[] = {{"long copies", 4, 2, 4, 4}, {"long kernels", 2, 6, 4, 2}, {"three waves", 2, 2, 40, 2}};

struct Generation {
  std::string_view profile, about;
  double unit_ms;
  std::size_t bytes;  ///< that its link moves in a unit
};
constexpr Generation generations[] = {{"fermi-1-engine", "one copy engine, launches are checked", 1, 1'000'000},
                                      {"cc30", "two copy engines, launches are checked", 1, 1'000'000},
                                      {"kepler-2-engines", "two copy engines", 1, 1'000'000},
                                      {"h200", "an H200, ten times as fast", 0.1, 5'550'000}};

struct Nothing {
  WEIR_KERNEL void operator()(std::size_t) const {}
};

struct Span {
  double begin, end;
};
struct Ran {
  double ms = 0;
  Span copy_in[streams], kernel[streams], copy_out[streams];
  bool correct = false;
};

class Loops {
 public:
  Loops(const Generation& generation, const Case& of)
      : generation_(generation),
        case_(of),
        device_(weir::device("sim:" + std::string(generation.profile))),
        elements_(generation.bytes * static_cast<std::size_t>(std::max(of.copy_in, of.copy_out))) {
    weir::sim::set_cost("overlap", {.blocks = static_cast<std::uint64_t>(of.blocks),
                                    .threads = 256,
                                    .block_ns = 1e6 * generation.unit_ms * of.block});
    for (std::size_t i = 0; i < streams; ++i) {
      streams_.emplace_back(device_);
      host_.push_back(weir::empty<std::uint8_t>(weir::pinned, elements_));
      std::fill(host_.back().data(), host_.back().data() + elements_, static_cast<std::uint8_t>(i + 1));
      data_.push_back(weir::zeros<std::uint8_t>(streams_.back(), elements_));
    }
    device_.synchronize();
  }

  Ran run(bool breadth) {
    std::vector<Span*> order;
    Ran ran;
    const auto copy_in = [&](std::size_t i) {
      const std::size_t bytes = bytes_of(case_.copy_in);
      weir::copy(streams_[i], data_[i].slice(0, bytes), host_[i].slice(0, bytes));
      order.push_back(&ran.copy_in[i]);
    };
    const auto kernel = [&](std::size_t i) {
      weir::launch(streams_[i], weir::Extent{.size = 1, .name = "overlap"}, Nothing{});
      order.push_back(&ran.kernel[i]);
    };
    const auto copy_out = [&](std::size_t i) {
      const std::size_t bytes = bytes_of(case_.copy_out);
      weir::copy(streams_[i], host_[i].slice(0, bytes), data_[i].slice(0, bytes));
      order.push_back(&ran.copy_out[i]);
    };
    if (breadth) {
      for (std::size_t i = 0; i < streams; ++i) copy_in(i);
      for (std::size_t i = 0; i < streams; ++i) kernel(i);
      for (std::size_t i = 0; i < streams; ++i) copy_out(i);
    } else {
      for (std::size_t i = 0; i < streams; ++i) copy_in(i), kernel(i), copy_out(i);
    }
    device_.synchronize();
    read_times(order, ran);
    ran.correct = correct();
    return ran;
  }

 private:
  std::size_t bytes_of(int units) const { return generation_.bytes * static_cast<std::size_t>(units); }

  /// The last commands of the device's timeline are those of this run.
  void read_times(const std::vector<Span*>& order, Ran& ran) const {
    const std::vector<weir::sim::PredictedCommand> all = weir::sim::timeline(device_).commands;
    const std::size_t first = all.size() - order.size();
    for (std::size_t i = 0; i < order.size(); ++i) {
      const weir::sim::PredictedCommand& one = all[first + i];
      *order[i] = {(one.begin_us - all[first].issued_us) / 1000, (one.end_us - all[first].issued_us) / 1000};
      ran.ms = std::max(ran.ms, order[i]->end);
    }
  }
  /// What went in came back: as much of it as was copied both ways.
  bool correct() const {
    for (std::size_t i = 0; i < streams; ++i) {
      const std::uint8_t* const begin = host_[i].data();
      const std::size_t bytes = bytes_of(std::min(case_.copy_in, case_.copy_out));
      if (std::any_of(begin, begin + bytes, [&](std::uint8_t value) { return value != i + 1; })) return false;
    }
    return true;
  }

  const Generation& generation_;
  const Case& case_;
  weir::Device device_;
  std::size_t elements_;
  std::vector<weir::Stream> streams_;
  std::vector<weir::Array<std::uint8_t>> host_, data_;
};

double both(const Span& a, const Span& b) { return std::max(0.0, std::min(a.end, b.end) - std::max(a.begin, b.begin)); }

/// "K0/H1 2, D0/K1 2": what overlaps, in the device's units.
std::string overlaps(const Ran& ran, double unit_ms) {
  std::string text;
  const auto add = [&](const char* name, const Span& a, const Span& b) {
    const double units = both(a, b) / unit_ms;
    if (units >= 0.05) text += fmt::format("{}{} {:.3g}", text.empty() ? "" : ", ", name, units);
  };
  add("K0/H1", ran.kernel[0], ran.copy_in[1]);
  add("K0/K1", ran.kernel[0], ran.kernel[1]);
  add("D0/H1", ran.copy_out[0], ran.copy_in[1]);
  add("D0/K1", ran.copy_out[0], ran.kernel[1]);
  return text.empty() ? "nothing overlaps" : text;
}

/// A stream's commands, two columns for a unit.
std::string lane(const Ran& ran, std::size_t stream, double unit_ms) {
  std::string text(columns, ' ');
  const auto draw = [&](char what, const Span& span) {
    const auto place = [&](double ms) {
      return std::clamp(static_cast<int>(std::lround(2 * ms / unit_ms)), 0, columns);
    };
    for (int i = place(span.begin); i < place(span.end); ++i) text[static_cast<std::size_t>(i)] = what;
  };
  draw('H', ran.copy_in[stream]);
  draw('K', ran.kernel[stream]);
  draw('D', ran.copy_out[stream]);
  return text;
}

Json json_of(const Ran& ran) {
  Json commands = Json::object();
  for (std::size_t i = 0; i < streams; ++i) {
    const auto add = [&](const char* name, const Span& span) {
      commands[fmt::format("{}{}", name, i)] = {thousandths(span.begin), thousandths(span.end)};
    };
    add("H", ran.copy_in[i]);
    add("K", ran.kernel[i]);
    add("D", ran.copy_out[i]);
  }
  return {{"ms", thousandths(ran.ms)}, {"commands", commands}};
}

Exit run_overlap(const Session& session) {
  bool correct = true;
  Json rows = Json::array();
  session.say(
      "overlap: H copy in, K kernel, D copy out, on two streams. Depth first: H K D of one stream, then of the other.\n"
      "Breadth first: both H, both K, both D. By the clocks of simulated devices; a column is half a unit.\n");
  for (const Case& of : cases) {
    session.say(fmt::format("\n{}: H {}, K {} block{} of {}, D {}\n{:<18}{:<{}}{}\n", of.name, of.copy_in, of.blocks,
                            of.blocks == 1 ? "" : "s", of.block, of.copy_out, "", "depth first", columns + 2,
                            "breadth first"));
    for (const Generation& generation : generations) {
      Loops loops(generation, of);
      const Ran depth = loops.run(false), breadth = loops.run(true);
      correct = correct && depth.correct && breadth.correct;
      const double unit = generation.unit_ms;
      const auto line = [&](std::string_view head, const std::string& a, const std::string& b) {
        std::string text = fmt::format("{:<18}{:<{}}{}", head, a, columns + 2, b);
        text.erase(text.find_last_not_of(' ') + 1);
        return text + "\n";
      };
      const auto sum = [&](const Ran& ran) { return fmt::format("{:.3g} ms: {}", ran.ms, overlaps(ran, unit)); };
      session.say(line(generation.profile, lane(depth, 0, unit), lane(breadth, 0, unit)) +
                  line("", lane(depth, 1, unit), lane(breadth, 1, unit)) + line("", sum(depth), sum(breadth)));
      rows.push_back({{"case", of.name},
                      {"device", fmt::format("sim:{}", generation.profile)},
                      {"depth", json_of(depth)},
                      {"breadth", json_of(breadth)}});
    }
  }
  std::string legend = "\n";
  for (const Generation& generation : generations)
    legend += fmt::format("{:<18}{}\n", generation.profile, generation.about);
  session.say(legend + fmt::format("Results {}.\n", correct ? "correct" : "WRONG"));
  if (session.json) session.print({{"rows", rows}, {"correct", correct}});
  return correct ? Exit::ok : Exit::wrong;
}

}  // namespace

void add_overlap(const Command& demo, Session& session) {
  const Command command = demo.add("overlap", "What overlaps on four generations of devices, by order of issue");
  command.footer(
      "Runs the guides' example of two streams in both orders on three old devices and an H200, none of which has to "
      "be\n"
      "here: the work runs on the CPU, and the times are those of the devices' models. Rows are streams.\n"
      "\nExample:  weir demo overlap --json");
  add_demo_options(command, session);
  command.when_given([&session] { session.run = [&session] { return run_overlap(session); }; });
}

}  // namespace tool
