// The model of simulated devices beside the H200 that was measured, and what it costs: errors by family, commands a second, how
// long the tool takes, the real cost of a command beyond the CPU backend's, memory over millions of launches, and what it costs
// programs that have none.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>
#include <nlohmann/json.hpp>

#include <weir/sim.hpp>
#include <weir/weir.hpp>

#include "data/measured_programs.hpp"
#include "support/processes.hpp"

namespace {

using Clock = std::chrono::steady_clock;

struct Row {
  std::string name;
  double value;
  double bar;  ///< the most, or where `least` the least; 0: none
  const char* unit;
  bool least = false;
  bool ok() const { return bar == 0 || (least ? value >= bar : value <= bar); }
};
std::vector<Row> rows;

void report(Row row) {
  std::printf("%-44s %12.4g %-8s", row.name.c_str(), row.value, row.unit);
  if (row.bar != 0) std::printf(" %s %-8.4g %s", row.least ? ">=" : "<=", row.bar, row.ok() ? "ok" : "MISSED");
  std::printf("\n");
  std::fflush(stdout);
  rows.push_back(std::move(row));
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<std::size_t>(share * static_cast<double>(values.size())))];
}

void errors() {
  std::map<std::string, std::vector<double>> families, sets;
  int inside = 0, programs = 0;
  std::vector<double> widths;
  const auto add = [&](const weir_test::MeasuredProgram& one, const char* set) {
    const weir::sim::Prediction prediction = weir::sim::predict(weir::parse_recording(one.scenario), {.gains = false});
    const double percent = 100 * std::abs(prediction.makespan_us / one.us - 1);
    families[set + std::string(".") + one.family].push_back(percent);
    sets[set].push_back(percent);
    inside += prediction.low_us <= one.us && one.us <= prediction.high_us;
    ++programs;
    widths.push_back(100 * (prediction.high_us - prediction.low_us) / prediction.makespan_us);
  };
  for (const auto& one : weir_test::measured_pipelines(WEIR_TEST_DATA)) add(one, "pipelines");
  for (const auto& one : weir_test::measured_mixtures(WEIR_TEST_DATA)) {
    const bool apart = one.family == "fills" || one.family.rfind("copies_within", 0) == 0;
    add(one, apart ? "apart" : "mixtures");
  }
  for (const auto& [family, percents] : families) {
    if (family == "pipelines.copy_kernel_copy" || family == "pipelines.kernels") continue;
    report({family + " median", quantile(percents, 0.5), 0, "%"});
    report({family + " p95", quantile(percents, 0.95), 0, "%"});
  }
  report({"pipelines median", quantile(sets["pipelines"], 0.5), 1.5, "%"});
  report({"pipelines p95", quantile(sets["pipelines"], 0.95), 7, "%"});
  report({"pipelines worst", quantile(sets["pipelines"], 1), 40, "%"});
  const auto& copies_kernels = families["pipelines.copy_kernel_copy"];
  report({"pipelines.copy_kernel_copy median", quantile(copies_kernels, 0.5), 1.5, "%"});
  report({"pipelines.copy_kernel_copy p95", quantile(copies_kernels, 0.95), 6, "%"});
  report({"pipelines.kernels median", quantile(families["pipelines.kernels"], 0.5), 1.5, "%"});
  report({"pipelines.kernels p95", quantile(families["pipelines.kernels"], 0.95), 9, "%"});
  report({"mixtures median", quantile(sets["mixtures"], 0.5), 3, "%"});
  report({"mixtures p95", quantile(sets["mixtures"], 0.95), 15, "%"});
  report({"fills, copies within: median", quantile(sets["apart"], 0.5), 10, "%"});
  report({"fills, copies within: p95", quantile(sets["apart"], 0.95), 30, "%"});
  report({"inside the 90 % interval, least", 100.0 * inside / programs, 85, "%", true});
  report({"inside the 90 % interval, most", 100.0 * inside / programs, 98, "%"});
  report({"width of the interval, median", quantile(widths, 0.5), 12, "%"});
}

/// In 8 streams.
std::string scenario_of(int commands) {
  std::string streams, program;
  for (int i = 0; i < 8; ++i)
    streams += (i == 0 ? "" : ",") + std::string(R"({"name":"s)") + std::to_string(i) + R"(","kind":"non_blocking"})";
  for (int i = 0; i < commands; ++i) {
    const std::string stream = R"({"stream":"s)" + std::to_string(i / 3 % 8) + "\",";
    program += i % 3 == 0 ? stream + R"("op":"copy","from":"in","to":"data"},)"
               : i % 3 == 1
                   ? stream + R"("op":"launch","name":"K","cost":{"block_ns":5000,"blocks":64,"threads":256}},)"
                   : stream + R"("op":"copy","from":"data","to":"in"},)";
  }
  return R"({"format":"weir.scenario","version":1,"streams":[)" + streams +
         R"(],"buffers":[{"name":"in","kind":"pinned","bytes":65536},{"name":"data","kind":"device","bytes":65536}],"program":[)" +
         program + R"({"op":"synchronize","all":true}]})";
}

void speed() {
  const std::string text = scenario_of(100'000);
  std::vector<double> model, whole;
  for (int i = 0; i < 5; ++i) {
    const auto begin = Clock::now();
    const weir::Recording recording = weir::parse_recording(text);
    const auto parsed = Clock::now();
    weir::sim::predict(recording, {.gains = false});
    model.push_back(100'000 / seconds_since(parsed));
    whole.push_back(seconds_since(begin));
  }
  report({"the model: commands a second", quantile(model, 0.5), 500'000, "1/s", true});
  report({"reading and predicting 100,000 commands", quantile(whole, 0.5), 1, "s"});
}

/// The tool, start-up included.
void tool() {
  const bench::Folder folder;
  const std::filesystem::path file = folder.path / "program.json";
  std::ofstream(file) << scenario_of(100);
  std::vector<double> all;
  for (int i = 0; i < 21; ++i) {
    const auto begin = Clock::now();
    bench::output_of(std::string("'") + WEIR_TOOL + "' predict --json '" + file.string() + "'");
    all.push_back(1000 * seconds_since(begin));
  }
  report({"weir predict of 100 commands, start-up included", quantile(all, 0.5), 50, "ms"});
}

#if defined(WEIR_PROBE_WITHOUT_SIM)
/// Of programs on "cpu": B1's submissions, in a library with simulated devices beside one without, where that is linked statically.
void cpu_with_sim_built_in() {
  constexpr std::size_t few = 10'000, many = 30'000;
  const auto each = [](const char* probe) {
    const double more = bench::probed_instructions(probe, "submit", many);
    return (more - bench::probed_instructions(probe, "submit", few)) / static_cast<double>(many - few);
  };
  const double with = each(WEIR_PROBE), without = each(WEIR_PROBE_WITHOUT_SIM);
  report({"a submission on cpu: instructions", with, 0, "instr"});
  report({"beside a library without simulated devices", 100 * std::abs(with / without - 1), 1, "%"});
}
#endif

struct Nothing {
  void operator()(std::size_t) const {}
};

double ns_per_launch(const weir::Stream& stream, int count) {
  stream.synchronize();
  const auto begin = Clock::now();
  for (int i = 0; i < count; ++i) {
    weir::launch(stream, 1, Nothing{});
    if (i % 1000 == 999) stream.synchronize();
  }
  stream.synchronize();
  return 1e9 * seconds_since(begin) / count;
}

double resident_mib() {
  std::ifstream file("/proc/self/statm");
  double pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

void cost(bool quick) {
  const weir::Stream cpu(weir::device("cpu")), simulated(weir::device("sim:h200"));
  std::vector<double> beyond;
  for (int i = 0; i < 7; ++i)
    beyond.push_back(ns_per_launch(simulated, quick ? 20'000 : 200'000) - ns_per_launch(cpu, quick ? 20'000 : 200'000));
  report({"real cost of a launch beyond the CPU backend's", quantile(beyond, 0.5), 2000, "ns"});
  const int millions = quick ? 1 : 10;
  ns_per_launch(simulated, 200'000);
  const double before = resident_mib();
  for (int i = 0; i < millions; ++i) ns_per_launch(simulated, 1'000'000);
  report({"memory over " + std::to_string(millions) + " million launches", resident_mib() - before, 4, "MiB"});
}

}  // namespace

int main(int argc, char** argv) {
  bool quick = false;
  std::string json;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--short") {
      quick = true;
    } else if (std::string_view(argv[i]) == "--json" && i + 1 < argc) {
      json = argv[++i];
    } else {
      std::fprintf(stderr, "usage: sim_bench [--short] [--json FILE]\n");
      return 2;
    }
  }
  errors();
  speed();
#ifdef WEIR_TOOL
  tool();
#endif
  cost(quick);
#ifdef WEIR_PROBE
  cpu_with_sim_built_in();
#endif
  if (!json.empty()) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const Row& row : rows)
      all.push_back({{"name", row.name}, {"value", row.value}, {"bar", row.bar}, {"unit", row.unit}, {"ok", row.ok()}});
    std::ofstream(json) << all.dump(1) << "\n";
  }
  return std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.ok(); }) ? 0 : 3;
}
