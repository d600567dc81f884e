// `weir demo heat`: heat flows over a plate that is cut between ranks. What neighbours need of each other moves while the rest
// is computed.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <weir/collectives.hpp>
#include <weir/copy.hpp>
#include <weir/memory.hpp>

#include "demo.hpp"
#include "measure.hpp"
#include "progress.hpp"
#include "work.hpp"

namespace tool {

namespace {

constexpr double hot = 100;

/// Rows of the plate before and after a step, with one more row at either end: of the neighbour, or the plate's edge.
class Band {
 public:
  Band(weir::Device device, std::size_t rows, std::size_t columns)
      : rows_(rows),
        compute_(device, {.name = "inner rows"}),
        exchange_(device, {.name = "outer rows"}),
        outer_done_(device),
        now_(weir::zeros<double>(compute_, {rows + 2, columns})),
        next_(weir::zeros<double>(compute_, {rows + 2, columns})) {
    exchange_.wait(compute_);
  }

  /// Everything is cold, but the edge above the plate's first row.
  void begin(bool first) {
    for (weir::Array<double>* plate : {&now_, &next_}) {
      weir::fill(compute_, *plate, 0.0);
      if (first) weir::fill(compute_, plate->slice(0, 1), hot);
    }
    exchange_.wait(compute_);
  }

  /// All rows at once.
  void step() {
    diffuse(compute_, now_.slice(0, rows_ + 2), next_.slice(1, rows_ + 1));
    std::swap(now_, next_);
  }

  /// The rows that neighbours wait for.
  void step_outer() {
    exchange_.wait(compute_);
    compute_.wait(outer_done_);  // those of the step before
    step_row(1);
    if (rows_ > 1) step_row(rows_);
    exchange_.record(outer_done_);
  }
  void exchange(const weir::Communicator& rank, bool above, bool below) {
    const int self = rank.rank();
    if (above) {
      weir::send(exchange_, rank, weir::in(next_.slice(1, 2)), self - 1);
      weir::receive(exchange_, rank, weir::out(next_.slice(0, 1)), self - 1);
    }
    if (below) {
      weir::send(exchange_, rank, weir::in(next_.slice(rows_, rows_ + 1)), self + 1);
      weir::receive(exchange_, rank, weir::out(next_.slice(rows_ + 1, rows_ + 2)), self + 1);
    }
  }

  /// The rows between, beside the exchange.
  void step_inner() {
    if (rows_ > 2) diffuse(compute_, now_.slice(1, rows_ + 1), next_.slice(2, rows_));
    std::swap(now_, next_);
  }

  void synchronize() const {
    compute_.synchronize();
    exchange_.synchronize();
  }
  std::vector<double> temperatures() const { return now_.slice(1, rows_ + 1).to_host(); }

 private:
  void step_row(std::size_t row) { diffuse(exchange_, now_.slice(row - 1, row + 2), next_.slice(row, row + 1)); }

  std::size_t rows_;
  weir::Stream compute_, exchange_;
  weir::Event outer_done_;
  weir::Array<double> now_, next_;
};

/// The whole plate on one device, in one stream.
class OnePlate {
 public:
  OnePlate(weir::Device device, std::size_t size) : device_(device), band_(device, size - 2, size) {}

  double run(std::int64_t steps) {
    band_.begin(true);
    band_.synchronize();
    const Stopwatch watch(device_);
    for (std::int64_t step = 0; step < steps; ++step) band_.step();
    band_.synchronize();
    return watch.milliseconds();
  }
  std::vector<double> temperatures() const { return band_.temperatures(); }

 private:
  weir::Device device_;
  Band band_;
};

class CutPlate {
 public:
  CutPlate(const std::vector<weir::Device>& devices, std::size_t size)
      : device_(devices.front()), ranks_(weir::communicators(devices, {.name = "heat"})) {
    const std::size_t rows = size - 2, count = devices.size();
    for (std::size_t r = 0; r < count; ++r) {
      bands_.emplace_back(devices[r], rows * (r + 1) / count - rows * r / count, size);
    }
  }

  double run(std::int64_t steps) {
    for (Band& band : bands_) band.begin(&band == &bands_.front());
    synchronize();
    const Stopwatch watch(device_);
    for (std::int64_t step = 0; step < steps; ++step) run_step();
    synchronize();
    return watch.milliseconds();
  }
  bool equals(const std::vector<double>& expected) const {
    std::size_t at = 0;
    for (const Band& band : bands_) {
      const std::vector<double> part = band.temperatures();
      if (at + part.size() > expected.size()) return false;
      if (std::memcmp(part.data(), expected.data() + at, part.size() * sizeof(double)) != 0) return false;
      at += part.size();
    }
    return at == expected.size();
  }

 private:
  void run_step() {
    for (Band& band : bands_) band.step_outer();
    weir::CollectiveGroup neighbours;  // one unit: they send to each other
    for (std::size_t r = 0; r < bands_.size(); ++r) {
      bands_[r].exchange(ranks_[r], r > 0, r + 1 < bands_.size());
    }
    neighbours.end();
    for (Band& band : bands_) band.step_inner();
  }
  void synchronize() const {
    for (const Band& band : bands_) band.synchronize();
  }

  weir::Device device_;
  std::vector<weir::Communicator> ranks_;
  std::vector<Band> bands_;
};

/// One for each rank: the devices of the session's kind, in turn.
std::vector<weir::Device> devices_of(const Session& session, std::int64_t ranks) {
  const weir::Device first = session.device();
  std::vector<weir::Device> all = weir::devices(first.backend());
  if (all.empty() || !session.device_name.empty()) all = {first};
  if (ranks == 0) ranks = std::max<std::int64_t>(2, static_cast<std::int64_t>(all.size()));
  std::vector<weir::Device> chosen;
  for (std::int64_t r = 0; r < ranks; ++r) chosen.push_back(all[static_cast<std::size_t>(r) % all.size()]);
  return chosen;
}

std::string names_of(const std::vector<weir::Device>& devices) {
  std::string names;
  for (const weir::Device& device : devices) names += (names.empty() ? "" : ", ") + device.name();
  return names;
}

}  // namespace

DemoResult run_heat(const Session& session, const HeatOptions& o) {
  check_range("--size", o.size, 3, std::int64_t{1} << 20);
  check_range("--steps", o.steps, 1, 1'000'000);
  check_range("--ranks", o.ranks, 0, 1024);
  check_range("--repeat", o.repeat, 1, 10'000);
  const std::vector<weir::Device> devices = devices_of(session, o.ranks);
  if (static_cast<std::int64_t>(devices.size()) > o.size - 2) {
    throw UsageError(fmt::format("--ranks {}: a plate of {} rows has {} for them", devices.size(), o.size, o.size - 2));
  }
  check_memory("--size", o.size * o.size, 4, 1, devices[0]);
  session.say(fmt::format("heat: a plate of {} x {} doubles, {} steps, on {} ranks: {}\n",
                          grouped(static_cast<std::uint64_t>(o.size)), grouped(static_cast<std::uint64_t>(o.size)),
                          o.steps, devices.size(), names_of(devices)));
  Progress progress("heat", static_cast<std::size_t>(2 * o.repeat + 2));
  OnePlate whole(devices[0], static_cast<std::size_t>(o.size));
  CutPlate cut(devices, static_cast<std::size_t>(o.size));
  Times one, many;
  bool equal = true;
  std::vector<double> expected;
  for (std::int64_t run = 0; run <= o.repeat; ++run) {
    const double one_ms = whole.run(o.steps);
    if (expected.empty()) expected = whole.temperatures();
    progress.step();
    const double many_ms = cut.run(o.steps);
    equal = cut.equals(expected) && equal;
    progress.step();
    if (run == 0) continue;  // the warm-up
    one.add(one_ms);
    many.add(many_ms);
  }
  const double speedup = ratio(one, many);
  session.say(fmt::format("  one device, one stream   {:>9.2f} ms\n  {:<22}   {:>9.2f} ms\n", one.median(),
                          fmt::format("{} ranks", devices.size()), many.median()) +
              fmt::format("  speed-up {:.2f}, bit for bit {}\n  ", speedup, equal ? "equal" : "DIFFERENT") +
              fmt::format(how_measured, o.repeat));
  return {.name = "heat",
          .what = fmt::format("{} x {}, {} ranks", grouped(static_cast<std::uint64_t>(o.size)),
                              grouped(static_cast<std::uint64_t>(o.size)), devices.size()),
          .one_ms = one.median(),
          .many_ms = many.median(),
          .good = equal,
          .json = {{"devices", names_of(devices)},
                   {"size", o.size},
                   {"steps", o.steps},
                   {"ranks", static_cast<std::int64_t>(devices.size())},
                   {"one_device_ms", thousandths(one.median())},
                   {"ranks_ms", thousandths(many.median())},
                   {"speedup", thousandths(speedup)},
                   {"equal", equal}}};
}

void add_heat(const Command& demo, Session& session) {
  const Command command = demo.add("heat", "Cut a plate between ranks that exchange their edges: collectives");
  command.footer(
      "Heat flows over a plate. Each rank has some of its rows, and computes those first that its neighbours wait "
      "for;\n"
      "these move from rank to rank while the rows between are computed. The result is compared, bit for bit, with "
      "that\n"
      "of one device. Ranks take the devices in turn: WEIR_CPU_DEVICES=2 splits the CPU into two.\n"
      "\nExample:  WEIR_CPU_DEVICES=2 weir demo heat --size 4096");
  const auto options = std::make_shared<HeatOptions>();
  command.number("--size", options->size, "Rows and columns of the plate");
  command.number("--steps", options->steps, "Steps of time in each run");
  command.number("--ranks", options->ranks, "Ranks; 0: one for each device, two at least");
  command.number("--repeat", options->repeat, "Timed runs of each variant");
  add_demo_options(command, session);
  command.when_given([&session, options] {
    session.run = [&session, options] { return finish_demo(session, run_heat(session, *options)); };
  });
}

}  // namespace tool
