// Devices of old: the text on CUDA streams, every time exact.
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <weir/recorder.hpp>
#include <weir/recording.hpp>
#include <weir/sim.hpp>
#include <weir/weir.hpp>

namespace {

using weir::sim::Prediction;

using Times = std::pair<double, double>;

/// "H0": what the command of that id takes, in milliseconds.
struct Ran {
  std::map<std::string, Times> times;
  std::map<std::string, double> last_block;
  double end = 0;

  double overlap(const std::string& a, const std::string& b) const {
    const Times x = times.at(a), y = times.at(b);
    return std::max(0.0, std::min(x.second, y.second) - std::max(x.first, y.first));
  }
};

std::string program(const std::vector<std::string>& commands) {
  std::string list;
  for (const std::string& command : commands) list += (list.empty() ? "" : ",") + command;
  return R"({"format":"weir.scenario","version":1,"streams":[{"name":"s0","kind":"blocking"},{"name":"s1","kind":"blocking"}],
    "buffers":[{"name":"h","kind":"pinned","bytes":4000000},{"name":"d","kind":"device","bytes":4000000}],"program":[)" +
         list + "]}";
}

Ran run(const std::string& text, const std::string& profile, std::vector<weir::sim::Setting> set = {}) {
  const weir::Recording recording = weir::parse_recording(text);
  const Prediction prediction = weir::sim::predict(recording, {profile, std::move(set), false});
  Ran ran;
  ran.end = prediction.makespan_us / 1000;
  for (const weir::sim::PredictedCommand& one : prediction.commands) {
    const std::string id = recording.id(one.command);
    ran.times[id] = {one.begin_us / 1000, one.end_us / 1000};
    ran.last_block[id] = one.last_block_us / 1000;
  }
  return ran;
}

std::string kernel(const char* id, int stream, int blocks, int ms) {
  return std::string(R"({"op":"launch","id":")") + id + R"(","stream":"s)" + std::to_string(stream) +
         R"(","cost":{"threads":256,"blocks":)" + std::to_string(blocks) + R"(,"block_ns":)" + std::to_string(ms) +
         "000000}}";
}

std::string copy(char what, int stream, int ms) {
  const std::string bytes = std::to_string(ms * 1000000);
  const std::string host = R"({"buffer":"h","bytes":)" + bytes + "}",
                    device = R"({"buffer":"d","bytes":)" + bytes + "}";
  return std::string(R"({"op":"copy","id":")") + what + std::to_string(stream) + R"(","stream":"s)" +
         std::to_string(stream) + R"(","from":)" + (what == 'H' ? host : device) + R"(,"to":)" +
         (what == 'H' ? device : host) + "}";
}

struct Case {
  const char* name;
  int copies_ms, blocks, block_ms;
};
const Case long_copies{"long copies", 4, 4, 2}, long_kernels{"long kernels", 2, 4, 6},
    three_waves{"three waves", 2, 40, 2};

std::string example(const Case& which, const std::string& order) {
  const auto k = [&](int stream) { return kernel(stream == 0 ? "K0" : "K1", stream, which.blocks, which.block_ms); };
  const int ms = which.copies_ms;
  if (order == "depth")
    return program({copy('H', 0, ms), k(0), copy('D', 0, ms), copy('H', 1, ms), k(1), copy('D', 1, ms)});
  return program({copy('H', 0, ms), copy('H', 1, ms), k(0), k(1), copy('D', 0, ms), copy('D', 1, ms)});
}

struct Row {
  const Case* which;
  const char* profile;
  const char* order;
  Times h0, k0, d0, h1, k1, d1;
  double last_block;
};

constexpr const char *fermi = "fermi-1-engine", *kepler = "kepler-2-engines", *cc30 = "cc30";
const Row rows[] = {
    {&long_copies, fermi, "depth", {0, 4}, {4, 6}, {6, 10}, {10, 14}, {14, 16}, {16, 20}, 14},
    {&long_copies, fermi, "breadth", {0, 4}, {4, 6}, {8, 12}, {4, 8}, {8, 10}, {12, 16}, 8},
    {&long_copies, kepler, "depth", {0, 4}, {4, 6}, {6, 10}, {4, 8}, {8, 10}, {10, 14}, 8},
    {&long_copies, kepler, "breadth", {0, 4}, {4, 6}, {6, 10}, {4, 8}, {8, 10}, {10, 14}, 8},
    {&long_copies, cc30, "depth", {0, 4}, {4, 6}, {6, 10}, {4, 8}, {8, 10}, {10, 14}, 8},
    {&long_copies, cc30, "breadth", {0, 4}, {4, 6}, {8, 12}, {4, 8}, {8, 10}, {12, 16}, 8},
    {&long_kernels, fermi, "depth", {0, 2}, {2, 8}, {8, 10}, {10, 12}, {12, 18}, {18, 20}, 12},
    {&long_kernels, fermi, "breadth", {0, 2}, {2, 8}, {8, 10}, {2, 4}, {4, 10}, {10, 12}, 4},
    {&long_kernels, kepler, "depth", {0, 2}, {2, 8}, {8, 10}, {2, 4}, {4, 10}, {10, 12}, 4},
    {&long_kernels, kepler, "breadth", {0, 2}, {2, 8}, {8, 10}, {2, 4}, {4, 10}, {10, 12}, 4},
    {&long_kernels, cc30, "depth", {0, 2}, {2, 8}, {8, 10}, {2, 4}, {8, 14}, {14, 16}, 8},
    {&long_kernels, cc30, "breadth", {0, 2}, {2, 8}, {8, 10}, {2, 4}, {4, 10}, {10, 12}, 4},
    {&three_waves, fermi, "depth", {0, 2}, {2, 8}, {8, 10}, {10, 12}, {12, 18}, {18, 20}, 16},
    {&three_waves, fermi, "breadth", {0, 2}, {2, 8}, {10, 12}, {2, 4}, {6, 12}, {12, 14}, 10},
    {&three_waves, kepler, "depth", {0, 2}, {2, 8}, {8, 10}, {2, 4}, {6, 12}, {12, 14}, 10},
    {&three_waves, kepler, "breadth", {0, 2}, {2, 8}, {8, 10}, {2, 4}, {6, 12}, {12, 14}, 10},
    {&three_waves, cc30, "depth", {0, 2}, {2, 8}, {8, 10}, {2, 4}, {8, 14}, {14, 16}, 12},
    {&three_waves, cc30, "breadth", {0, 2}, {2, 8}, {10, 12}, {2, 4}, {6, 12}, {12, 14}, 10},
};

TEST(OlderDevices, C10_the_texts_example_runs_on_each_of_them_as_it_did) {
  for (const Row& row : rows) {
    SCOPED_TRACE(std::string(row.which->name) + ", " + row.profile + ", " + row.order);
    const Ran ran = run(example(*row.which, row.order), row.profile);
    EXPECT_EQ(ran.times.at("H0"), row.h0);
    EXPECT_EQ(ran.times.at("K0"), row.k0);
    EXPECT_EQ(ran.times.at("D0"), row.d0);
    EXPECT_EQ(ran.times.at("H1"), row.h1);
    EXPECT_EQ(ran.times.at("K1"), row.k1);
    EXPECT_EQ(ran.times.at("D1"), row.d1);
    EXPECT_EQ(ran.last_block.at("K1"), row.last_block);
    EXPECT_EQ(ran.end, row.d1.second);
  }
}

TEST(OlderDevices, C10_without_concurrent_transfers_only_the_rewritten_loops_overlap) {
  for (const Case* which : {&long_copies, &long_kernels, &three_waves}) {
    const Ran depth = run(example(*which, "depth"), fermi), breadth = run(example(*which, "breadth"), fermi);
    for (const char* first : {"H0", "K0", "D0"}) {
      for (const char* second : {"H1", "K1", "D1"}) EXPECT_EQ(depth.overlap(first, second), 0);
    }
    EXPECT_EQ(breadth.overlap("K0", "H1"), 2);
  }
}

TEST(OlderDevices, C10_with_concurrent_transfers_the_first_loop_overlaps_too_but_up_to_3_0_not_the_kernels) {
  for (const char* profile : {kepler, cc30}) {
    const Ran ran = run(example(long_copies, "depth"), profile);
    EXPECT_EQ(ran.overlap("D0", "H1"), 2);
    EXPECT_EQ(ran.overlap("K0", "H1"), 2);
  }
  for (const Case* which : {&long_copies, &long_kernels, &three_waves})
    EXPECT_EQ(run(example(*which, "depth"), cc30).overlap("K0", "K1"), 0);
  EXPECT_EQ(run(example(long_kernels, "depth"), kepler).overlap("K0", "K1"), 4);
  EXPECT_EQ(run(example(three_waves, "depth"), kepler).overlap("K0", "K1"), 2);
  EXPECT_EQ(run(example(long_kernels, "breadth"), cc30).overlap("K0", "K1"), 4);
  EXPECT_EQ(run(example(three_waves, "breadth"), cc30).overlap("K0", "K1"), 2);
}

TEST(OlderDevices, C10_the_copy_behind_a_kernel_then_overlaps_only_the_last_blocks_of_the_other_kernel) {
  const Ran ran = run(example(three_waves, "breadth"), cc30);
  EXPECT_EQ(ran.times.at("D0").first, ran.last_block.at("K1"));
  EXPECT_EQ(ran.times.at("D0").first, ran.times.at("K0").second + 2);
  EXPECT_EQ(run(example(three_waves, "breadth"), kepler).times.at("D0").first, 8);
}

TEST(OlderDevices, C11_independent_work_first_and_no_query_between) {
  const auto k = [](const char* id, int stream) { return kernel(id, stream, 4, 2); };
  const std::string dependent = program({k("A0", 0), k("B0", 0), k("A1", 1), k("B1", 1)});
  const std::string independent = program({k("A0", 0), k("A1", 1), k("B0", 0), k("B1", 1)});
  EXPECT_EQ(run(dependent, cc30).end, 6);
  EXPECT_EQ(run(independent, cc30).end, 4);
  EXPECT_EQ(run(dependent, kepler).end, 4);
  EXPECT_EQ(run(independent, kepler).end, 4);

  const std::string first = kernel("K0", 0, 4, 6), second = kernel("K1", 1, 4, 6);
  const std::string asked = program({first, R"({"op":"query","stream":"s0","answer":false})", second});
  EXPECT_EQ(run(asked, cc30).times.at("K1"), Times(6, 12));
  EXPECT_EQ(run(program({first, second}), cc30).times.at("K1"), Times(0, 6));
  EXPECT_EQ(run(asked, kepler).times.at("K1"), Times(0, 6));
}

TEST(OlderDevices, C10_what_synchronises_implicitly_keeps_streams_apart_there_but_not_on_an_h200) {
  const std::string head =
      R"({"format":"weir.scenario","version":1,"streams":[{"name":"s0","kind":"blocking"},{"name":"s1","kind":"blocking"},
      {"name":"l","kind":"legacy"}],"buffers":[{"name":"d","kind":"device","bytes":64},{"name":"e","kind":"device","bytes":64},
      {"name":"n","kind":"device","bytes":64,"start":"later"},{"name":"p","kind":"pinned","bytes":64,"start":"later"},
      {"name":"h","kind":"pageable","bytes":64,"start":"later"}],"program":[)";
  const std::string host_memory =
      head + kernel("K0", 0, 4, 6) + R"(,{"op":"alloc","buffer":"h"},)" + kernel("K1", 1, 4, 6) + "]}";
  for (const char* profile : {fermi, kepler, cc30}) EXPECT_GT(run(host_memory, profile).overlap("K0", "K1"), 0);
  for (const char* between :
       {R"({"op":"alloc","buffer":"n","stream":"s0"})", R"({"op":"alloc","buffer":"p"})",
        R"({"op":"fill","stream":"s1","to":"d"})", R"({"op":"copy","stream":"s1","from":"d","to":"e"})",
        R"({"op":"fill","stream":"l","to":"d"})"}) {
    SCOPED_TRACE(between);
    const std::string text = head + kernel("K0", 0, 4, 6) + "," + between + "," + kernel("K1", 1, 4, 6) + "]}";
    for (const char* profile : {fermi, kepler, cc30}) EXPECT_EQ(run(text, profile).overlap("K0", "K1"), 0);
    const bool legacy = std::string(between).find("\"l\"") != std::string::npos;
    EXPECT_EQ(run(text, "h200").overlap("K0", "K1") > 0, !legacy);
  }
}

struct Nothing {
  void operator()(std::size_t) const {}
};

TEST(OlderDevices, C10_whatever_the_legacy_stream_is_given_keeps_streams_apart_there) {
  weir::sim::set_cost("legacy 6 ms", {.ns = 6e6});
  const auto work = [](weir::StreamRef stream) {
    weir::launch(stream, weir::Extent{.size = 1, .name = "legacy 6 ms"}, Nothing{});
  };
  for (const std::string profile : {cc30, "h200"}) {
    const weir::Device device = weir::device("sim:" + profile);
    const weir::StreamRef legacy = weir::legacy_stream(device);
    const weir::Stream s(device, {.blocking = false}), t(device, {.blocking = false});
    const weir::Event event(device), timed_before = t.record();
    const weir::TimedEvent timed(device);
    const weir::Graph graph = weir::capture(s, [&] { weir::host_call(s, [] {}); });
    const std::pair<const char*, std::function<void()>> uses[] = {
        {"nothing", [] {}},
        {"a record", [&] { legacy.record(event); }},
        {"a timed record", [&] { legacy.record(timed); }},
        {"a wait for an event", [&] { legacy.wait(timed_before); }},
        {"a graph", [&] { graph.launch(legacy); }},
    };
    for (const auto& [name, use] : uses) {
      device.synchronize();
      weir::sim::host_work(std::chrono::milliseconds(1));
      const auto begin = weir::host_now(device);
      weir::Recorder recorder;
      work(s);
      use();
      work(t);
      device.synchronize();
      const double ms = std::chrono::duration<double, std::milli>(weir::host_now(device) - begin).count();
      const bool separates = profile == cc30 && std::string(name) != "nothing";
      EXPECT_NEAR(ms, separates ? 12 : 6, 0.2) << name << " on " << profile;
      EXPECT_NEAR(weir::sim::predict(recorder.finish(), {profile, {}, false}).makespan_us / 1000, ms, 0.2) << name;
    }
  }
}

TEST(OlderDevices, C6_without_copy_engines_copies_and_kernels_never_overlap) {
  for (const char* order : {"depth", "breadth"}) {
    const Ran ran = run(example(three_waves, order), kepler, {{"copy_engines", 0}});
    for (const char* one : {"H0", "D0", "H1", "D1"}) {
      for (const char* other : {"K0", "K1"}) EXPECT_EQ(ran.overlap(one, other), 0) << order << one << other;
    }
  }
  // On an H200 the last block of a kernel with many begins well behind the first, and ends behind the moment when places are free.
  const std::string many =
      R"({"op":"launch","id":"K","stream":"s0","cost":{"threads":64,"blocks":4224,"block_ns":20000}})";
  const std::string copy =
      R"({"op":"copy","id":"D","stream":"s1","from":{"buffer":"d","bytes":1000000},"to":{"buffer":"h","bytes":1000000}})";
  const Ran ran = run(program({many, R"({"op":"work","ns":10000})", copy}), "h200", {{"copy_engines", 0}});
  EXPECT_GE(ran.times.at("D").first, ran.times.at("K").second);
}

}  // namespace
