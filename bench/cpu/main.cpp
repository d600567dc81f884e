// cpu_bench: runs the benchmarks of the CPU backend, each beside its raw counterpart, and says which figures they reach.
#include <chrono>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "bench.hpp"
#include "raw/raw.hpp"
#include "support/command_line.hpp"

namespace {

constexpr std::string_view usage =
    "usage: cpu_bench [--only NAME]... [--short] [--strict] [--json FILE]\n"
    "  --only NAME   run this benchmark alone; may be given several times\n"
    "  --short       a tenth of the work, three repetitions: figures are rough, and rows say what was done\n"
    "  --strict      end with 1 where a row falls short, is wrong, or was disturbed by others\n"
    "  --json FILE   write the rows there\n"
    "names:";

using Bench = bench::Named<bench::Context>;

constexpr Bench benches[] = {
    {"B1", bench::launch_rate},
    {"B2", bench::round_robin},
    {"B3", bench::round_trip},
    {"B4", bench::hops},
    {"B5", bench::fork_join},
    {"B6", bench::triad},
    {"B7", bench::small_loop},
    {"blocks", bench::block_sums},
    {"B8", bench::idle},
    {"B9", bench::pool},
    {"B10", bench::copy_and_fill},
    {"B11", bench::random_graph},
    {"graph", bench::graphs},
    {"N3", bench::normalize},
    {"taken", bench::core_taken},
    {"vadd", bench::vadd},
    {"video", bench::video},
    {"threads", bench::threads},
    {"streams", bench::thousand_streams},
    {"observe", bench::observe},
    {"trace", bench::trace},
    {"check", bench::check},
    {"all_reduce", bench::collectives},
    {"algorithms", bench::algorithms},
    {"instructions", bench::instructions},
    {"allocations", bench::allocations},
    {"graph.allocations", bench::replay_allocations},
    {"memory", bench::flat_memory},
};

void run(const Bench& bench, bench::Context& context) {
  try {
    bench.run(context);
  } catch (const std::exception& failure) {
    context.report.fail(std::string(bench.name), failure.what());
  }
}

bool run_all(const bench::Arguments& arguments, const std::vector<Bench>& chosen, const bench::Neighbour& neighbour) {
  bench::Options options = arguments.options();
  // Whether rows notice does not need figures.
  if constexpr (bench::sabotaged) options = {.repetitions = 1, .divide = 100, .pause = std::chrono::milliseconds(1)};
  const std::filesystem::path probe = std::filesystem::read_symlink("/proc/self/exe")
                                          .replace_filename(bench::sabotaged ? "cpu_probe_sabotaged" : "cpu_probe");
  bench::Report report(std::cout);
  bench::Context context{options, weir::device("cpu"), neighbour, probe.string(), report};
  weir::set_default_device(context.device);  // on a machine with a GPU that would be the GPU
  const int cores = context.device.properties().multiprocessors;
  context.cores = cores;
  const double hand_over = bench::repeat(options, [&] { return bench::raw::hop(options.cut(20'000)); }).median;
  report.set_machine(cores, hand_over);
  std::cout << context.device.properties().name << ", " << cores << " cores, raw hand-over " << hand_over << " us, "
            << options.repetitions << " repetitions" << (arguments.quick ? " of a tenth of the work" : "")
            << ": median [lowest to highest]" << std::endl;
  for (const Bench& bench : chosen) run(bench, context);
  report.print_table();
  if (!arguments.json.empty()) report.write_json(arguments.json);
  if constexpr (bench::sabotaged) return report.all_wrong();
  return arguments.strict ? report.all_proved() : report.all_ran();
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments;
  std::vector<Bench> chosen;
  try {
    arguments = bench::parse(argc, argv);
    chosen = bench::choose(benches, arguments.only);
  } catch (const std::invalid_argument& mistake) {
    std::cerr << "cpu_bench: " << mistake.what() << '\n' << usage;
    for (const Bench& bench : benches) std::cerr << ' ' << bench.name;
    std::cerr << '\n';
    return 2;
  }
  try {
    const bench::Neighbour neighbour;  // forks: before anything has threads
    return run_all(arguments, chosen, neighbour) ? 0 : 1;
  } catch (const std::exception& failure) {
    std::cerr << "cpu_bench: " << failure.what() << '\n';
    return 1;
  }
}
