// cuda_bench: runs the benchmarks of the CUDA backend, each beside raw CUDA, and says which figures they reach.
#include <iostream>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <cuda_runtime_api.h>

#include "bench.hpp"
#include "support/command_line.hpp"
#include "support/proof.hpp"

namespace {

constexpr std::string_view usage =
    "usage: cuda_bench [--only NAME]... [--short] [--json FILE]\n"
    "  --only NAME   run this benchmark alone; may be given several times\n"
    "  --short       a tenth of the work, few repetitions: figures are rough\n"
    "  --json FILE   write the rows there\n"
    "Ends with 1 where something could not run, and with 3 where a row falls short.\n"
    "names:";

using Bench = bench::Named<bench::Context>;

constexpr Bench benches[] = {
    {"launch", bench::launch_cost},
    {"launch_wait", bench::launch_wait},
    {"threads", bench::launches_by_threads},
    {"hop", bench::hop},
    {"allocate", bench::allocate},
    {"streams", bench::streams},
    {"host_function", bench::host_function},
    {"guarded", bench::guarded},
    {"copies", bench::pinned_copies},
    {"peer", bench::peer_copy},
    {"pageable", bench::pageable_copies},
    {"M1", bench::chunked},
    {"M1_pageable", bench::pageable_vectors},
    {"graph", bench::graphs},
    {"algorithms", bench::algorithms},
    {"observed", bench::observed},
    {"collectives", bench::collectives},
    {"many_streams", bench::many_streams},  // last: its streams stay
};

void run(const Bench& bench, bench::Context& context) {
  try {
    bench.run(context);
  } catch (const std::exception& failure) {
    context.report.fail(std::string(bench.name), failure.what());
  }
}

void say_where(const std::vector<weir::Device>& gpus, const bench::Options& options) {
  int driver = 0;
  int runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const auto version = [](int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); };
  std::cout << gpus.size() << " x " << gpus.front().properties().name << ", driver for CUDA " << version(driver)
            << ", runtime " << version(runtime) << ", " << options.repetitions
            << " repetitions: median [lowest to highest]" << std::endl;
}

int run_all(const bench::Arguments& arguments, const std::vector<Bench>& chosen) {
  const std::vector<weir::Device> gpus = weir::devices("cuda");
  if (gpus.empty()) throw std::runtime_error("no GPU: " + weir::why_absent("cuda"));
  bench::Report report(std::cout);
  bench::Context context{arguments.options(), gpus.front(), {}, report};
  if (gpus.size() > 1) context.peer = gpus[1];
  say_where(gpus, context.options);
  for (const Bench& bench : chosen) run(bench, context);
  report.print_table();
  if constexpr (bench::sabotaged) return report.all_wrong() ? 0 : 1;
  if (!arguments.json.empty()) report.write_json(arguments.json);
  return !report.all_ran() ? 1 : report.all_reached() ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments;
  std::vector<Bench> chosen;
  try {
    arguments = bench::parse(argc, argv);
    chosen = bench::choose(benches, arguments.only);
  } catch (const std::invalid_argument& mistake) {
    std::cerr << "cuda_bench: " << mistake.what() << '\n' << usage;
    for (const Bench& bench : benches) std::cerr << ' ' << bench.name;
    std::cerr << '\n';
    return 2;
  }
  try {
    return run_all(arguments, chosen);
  } catch (const std::exception& failure) {
    std::cerr << "cuda_bench: " << failure.what() << '\n';
    return 1;
  }
}
