// `weir demo heat`: heat flows over a plate that is cut between ranks. What neighbours need of each other moves while the rest
// is computed.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#ifdef WEIR_TOOL_WITH_MPI
#include <weir/mpi.hpp>
#endif

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
        // Few blocks, which others wait for: they shall not stand behind the many of the inner rows.
        exchange_(device, {.priority = device.properties().stream_priorities.greatest, .name = "outer rows"}),
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
  /// Ranks of this process: all there are, or one of those of other processes.
  CutPlate(std::vector<weir::Communicator> ranks, std::size_t size)
      : device_(ranks.front().device()), ranks_(std::move(ranks)) {
    const std::size_t rows = size - 2, count = static_cast<std::size_t>(ranks_.front().size());
    for (const weir::Communicator& one : ranks_) {
      const auto r = static_cast<std::size_t>(one.rank());
      bands_.emplace_back(one.device(), rows * (r + 1) / count - rows * r / count, size);
    }
    first_element_ = rows * static_cast<std::size_t>(ranks_.front().rank()) / count * size;
  }

  double run(std::int64_t steps) {
    for (std::size_t i = 0; i < bands_.size(); ++i) bands_[i].begin(ranks_[i].rank() == 0);
    synchronize();
    const Stopwatch watch(device_);
    for (std::int64_t step = 0; step < steps; ++step) run_step();
    synchronize();
    return watch.milliseconds();
  }
  bool equals(const std::vector<double>& expected) const {
    std::size_t at = first_element_;
    for (const Band& band : bands_) {
      const std::vector<double> part = band.temperatures();
      if (at + part.size() > expected.size()) return false;
      if (std::memcmp(part.data(), expected.data() + at, part.size() * sizeof(double)) != 0) return false;
      at += part.size();
    }
    return at == expected.size() || ranks_.back().rank() + 1 < ranks_.back().size();
  }
  /// All ranks say whether theirs is right.
  bool all_equal(bool mine) const {
    if (ranks_.size() == static_cast<std::size_t>(ranks_.front().size())) return mine;
    const weir::Stream s(device_);
    const auto right = weir::full<int>(s, 1, mine ? 1 : 0);
    weir::all_reduce(s, ranks_.front(), weir::inout(right), weir::Minimum{});
    return right.to_host()[0] == 1;
  }

 private:
  void run_step() {
    for (Band& band : bands_) band.step_outer();
    weir::CollectiveGroup neighbours;  // one unit: they send to each other
    for (std::size_t r = 0; r < bands_.size(); ++r) {
      bands_[r].exchange(ranks_[r], ranks_[r].rank() > 0, ranks_[r].rank() + 1 < ranks_[r].size());
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
  std::size_t first_element_ = 0;  ///< of the plate's, that is here
};

bool says_several(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::string_view(value) != "1";
}
/// Of a process that was started as one of several: the GPU of its number on this host, unless the user says which.
weir::Device device_of_process(const Session& session) {
  const weir::Device first = session.device();
  const char* number = nullptr;
  for (const char* variable : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
    if (number == nullptr) number = std::getenv(variable);
  }
  if (first.backend() != "cuda" || number == nullptr || session.device_name.find(':') != std::string::npos)
    return first;
  const std::vector<weir::Device> all = weir::devices("cuda");
  return all[static_cast<std::size_t>(std::max(std::atoi(number), 0)) % all.size()];
}

/// This process's rank, if `weir ranks`, torchrun, mpirun or srun started several; else ranks of this process.
std::vector<weir::Communicator> ranks_of(const Session& session, const std::vector<weir::Device>& devices) {
  std::vector<weir::Communicator> ranks;
  const bool by_torchrun =
      says_several("WORLD_SIZE") && std::getenv("RANK") != nullptr && std::getenv("MASTER_PORT") != nullptr;
  if (by_torchrun || std::getenv("WEIR_JOB_SECRET") != nullptr) {
    ranks.push_back(weir::communicator(device_of_process(session), {.name = "heat"}));
    return ranks;
  }
#ifdef WEIR_TOOL_WITH_MPI
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}) {
    if (!says_several(variable)) continue;
    ranks.push_back(weir::mpi::communicator(device_of_process(session), MPI_COMM_WORLD, {.name = "heat"}));
    return ranks;
  }
#endif
  return weir::communicators(devices, {.name = "heat"});
}

/// One for each rank: the devices of the session's kind, in turn.
std::vector<weir::Device> devices_of(const Session& session, std::int64_t ranks) {
  const weir::Device first = session.device();
  std::vector<weir::Device> all = session.device_name.empty() ? weir::devices(first.backend()) : session.devices();
  if (all.empty()) all = {first};
  const auto count = static_cast<std::int64_t>(all.size());
  // Of GPUs each is one rank.
  if (ranks == 0) ranks = first.backend() == "cuda" ? count : std::max<std::int64_t>(2, count);
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
  std::vector<weir::Device> devices = devices_of(session, o.ranks);
  std::vector<weir::Communicator> ranks = ranks_of(session, devices);
  const bool alone = ranks.size() == static_cast<std::size_t>(ranks.front().size());
  if (!alone && o.ranks != 0) throw UsageError("--ranks: who started this process has said how many there are");
  if (!alone) devices.assign(static_cast<std::size_t>(ranks.front().size()), ranks.front().device());
  const bool speaks = alone || ranks.front().rank() == 0;
  if (static_cast<std::int64_t>(devices.size()) > o.size - 2) {
    throw UsageError(fmt::format("--ranks {}: a plate of {} rows has {} for them", devices.size(), o.size, o.size - 2));
  }
  check_memory("--size", o.size * o.size, 4, 1, devices[0]);
  const auto say = [&](const std::string& text) {
    if (speaks) session.say(text);
  };
  say(fmt::format("heat: a plate of {} x {} doubles, {} steps, on {} ranks: {}\n",
                  grouped(static_cast<std::uint64_t>(o.size)), grouped(static_cast<std::uint64_t>(o.size)), o.steps,
                  devices.size(),
                  alone ? names_of(devices) : "processes, by " + std::string(ranks.front().transport())));
  Progress progress("heat", static_cast<std::size_t>(2 * o.repeat + 2));
  OnePlate whole(devices[0], static_cast<std::size_t>(o.size));
  CutPlate cut(std::move(ranks), static_cast<std::size_t>(o.size));
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
  equal = cut.all_equal(equal);
  const double speedup = ratio(one, many);
  say(fmt::format("  one device, one stream   {:>9.2f} ms\n  {:<22}   {:>9.2f} ms\n", one.median(),
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
                   {"equal", equal}},
          .speaks = speaks};
}

void add_heat(const Command& demo, Session& session) {
  const Command command = demo.add("heat", "Cut a plate between ranks that exchange their edges: collectives");
  command.footer(
      "Heat flows over a plate. Each rank has some of its rows, and computes those first that its neighbours wait "
      "for;\n"
      "these move from rank to rank while the rows between are computed. The result is compared, bit for bit, with "
      "that\n"
      "of one device. Ranks take the devices in turn, all there are or those that --device names with commas between;\n"
      "WEIR_CPU_DEVICES=2 splits the CPU into two. Under mpirun, srun and weir ranks, each process is a rank.\n"
      "\nExamples:  WEIR_CPU_DEVICES=2 weir demo heat --size 4096 --device cpu:0,cpu:1\n"
      "           weir ranks -n 4 -- weir demo heat; mpirun -n 4 weir demo heat");
  const auto options = std::make_shared<HeatOptions>();
  command.number("--size", options->size, "Rows and columns of the plate");
  command.number("--steps", options->steps, "Steps of time in each run");
  command.number("--ranks", options->ranks, "Ranks; 0: one for each device, on a CPU two at least");
  command.number("--repeat", options->repeat, "Timed runs of each variant");
  add_demo_options(command, session);
  command.when_given([&session, command, options] {
    session.takes_devices = true;
    session.run = [&session, command, options] {
      make_small(session, command, "--size", options->size, HeatOptions::small_size);
      return finish_demo(session, run_heat(session, *options));
    };
  });
}

}  // namespace tool
