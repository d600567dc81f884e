// What predictions say would make a program faster, and that it does.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <weir/recording.hpp>
#include <weir/sim.hpp>

namespace {

using weir::sim::Prediction;

const std::string in_turns = "issue the streams' commands in turns, the first of each first";

/// Two pieces of work, each a copy in, a kernel of 4 blocks, a copy out.
std::string two_pieces(bool breadth, const char* kind, const char* memory) {
  std::vector<std::string> calls;
  for (const std::string stream : {"s", "t"}) {
    const std::string begin = R"({"stream":")" + stream + R"(",)";
    calls.push_back(begin + R"("op":"copy","from":"host","to":"data"})");
    calls.push_back(begin +
                    R"("op":"launch","name":"k","uses":[],"cost":{"blocks":4,"threads":256,"block_ns":6000000}})");
    calls.push_back(begin + R"("op":"copy","from":"data","to":"host"})");
  }
  const std::vector<std::size_t> order =
      breadth ? std::vector<std::size_t>{0, 3, 1, 4, 2, 5} : std::vector<std::size_t>{0, 1, 2, 3, 4, 5};
  std::string program;
  for (const std::size_t i : order) program += calls[i] + ",";
  return R"({"format":"weir.scenario","version":1,"streams":[{"name":"s","kind":")" + std::string(kind) +
         R"("},{"name":"t","kind":")" + kind +
         R"("},{"name":"l","kind":"legacy"}],"buffers":[{"name":"host","kind":")" + memory +
         R"(","bytes":2000000},{"name":"data","kind":"device","bytes":2000000}],"program":[)" + program +
         R"({"op":"synchronize","all":true}]})";
}

Prediction predicted(const std::string& scenario, const char* profile) {
  return weir::sim::predict(weir::parse_recording(scenario), {.profile = profile});
}

/// A NaN if it is not among them.
double with(const Prediction& prediction, const std::string& change) {
  const auto found = std::find_if(prediction.gains.begin(), prediction.gains.end(),
                                  [&](const weir::sim::Gain& one) { return one.change == change; });
  return found == prediction.gains.end() ? std::numeric_limits<double>::quiet_NaN() : found->makespan_us;
}

}  // namespace

// The text's rewritten loops: 20 and 12 ms.
TEST(Gains, of_another_order_of_issue_are_what_that_order_takes) {
  const Prediction depth = predicted(two_pieces(false, "non_blocking", "pinned"), "fermi-1-engine");
  const Prediction breadth = predicted(two_pieces(true, "non_blocking", "pinned"), "fermi-1-engine");
  EXPECT_NEAR(depth.makespan_us, 20'000, 0.01);
  EXPECT_NEAR(breadth.makespan_us, 12'000, 0.01);
  EXPECT_NEAR(with(depth, in_turns), breadth.makespan_us, 0.01);
  EXPECT_TRUE(std::isnan(with(breadth, in_turns))) << "it is in turns already";
}

TEST(Gains, of_pinned_memory_are_what_pinned_memory_takes) {
  const Prediction pageable = predicted(two_pieces(false, "non_blocking", "pageable"), "h200");
  const Prediction pinned = predicted(two_pieces(false, "non_blocking", "pinned"), "h200");
  EXPECT_LT(pinned.makespan_us, pageable.makespan_us);
  EXPECT_NEAR(with(pageable, "pin the host memory of copies"), pinned.makespan_us, 0.01);
  EXPECT_TRUE(std::isnan(with(pinned, "pin the host memory of copies")));
}

TEST(Gains, of_non_blocking_streams_are_what_such_take) {
  const auto barred = [](const char* kind) {
    std::string text = two_pieces(false, kind, "pinned");
    const std::string second = R"({"stream":"t","op":"copy","from":"host")";
    text.insert(
        text.find(second),
        R"({"stream":"l","op":"launch","name":"k","uses":[],"cost":{"blocks":1,"threads":32,"block_ns":1000}},)");
    return predicted(text, "h200");
  };
  const Prediction blocking = barred("blocking"), free = barred("non_blocking");
  EXPECT_LT(free.makespan_us, 0.6 * blocking.makespan_us);
  EXPECT_NEAR(with(blocking, "make the streams non-blocking"), free.makespan_us, 0.01);
}

// Each part of the critical path has a command with a line, or is the host's between calls.
TEST(Gains, and_what_held_a_program_back_name_commands) {
  const Prediction prediction = predicted(two_pieces(false, "non_blocking", "pinned"), "h200");
  ASSERT_FALSE(prediction.critical_path.empty());
  double sum = 0;
  for (const weir::sim::PathPart& part : prediction.critical_path) {
    sum += part.end_us - part.begin_us;
    EXPECT_NE(part.command, weir::sim::no_command);
  }
  EXPECT_NEAR(sum, prediction.makespan_us, 0.01);
}

// Programs that are held back by one thing each: the path tells it, with the command whose line it is.
TEST(Causes, are_told_of_what_each_holds_back) {
  const std::string kernel =
      R"({"op":"launch","id":"kernel","stream":"s","cost":{"block_ns":1000000,"blocks":1,"threads":256}})";
  const std::string in = R"({"op":"copy","id":"in","stream":"s","from":"host","to":"data"})";
  const auto small = [](const std::string& id, const std::string& stream, int us) {
    return R"({"op":"launch",)" + (id.empty() ? "" : R"("id":")" + id + R"(",)") + R"("stream":")" + stream +
           R"(","cost":{"block_ns":)" + std::to_string(us * 1000) + R"(,"blocks":1,"threads":32}})";
  };
  const auto times = [](int count, const std::string& calls) {
    std::string all;
    for (int i = 0; i < count; ++i) all += (i == 0 ? "" : ",") + calls;
    return all;
  };
  const std::string full =
      R"({"op":"launch","id":"full","stream":"s","cost":{"block_ns":1000000,"blocks":132,"threads":2048}})";
  const struct {
    weir::sim::Cause cause;
    const char *memory, *profile, *held;
    std::string program;
    double share;
  } cases[] = {
      {weir::sim::Cause::link, "pinned", "h200", "in", in, 0.8},
      {weir::sim::Cause::kernels, "pinned", "h200", "kernel", kernel, 0.9},
      {weir::sim::Cause::host, "pinned", "h200", "", times(200, small("", "s", 0)), 0.9},
      {weir::sim::Cause::hops, "pinned", "h200", "",
       full + "," + times(40, R"({"op":"copy","stream":"s","from":"word","to":"place"},)" + small("", "s", 1)), 0.1},
      {weir::sim::Cause::copy_order, "pinned", "fermi-1-engine", "later",
       kernel + "," + in + R"(,{"op":"copy","id":"later","stream":"t","from":"host","to":"data"},)" +
           small("", "t", 900),
       0.15},
      {weir::sim::Cause::full_device, "pinned", "h200", "waits", full + "," + small("waits", "t", 1), 0.9},
      {weir::sim::Cause::legacy_barrier, "pinned", "h200", "barred",
       small("long", "b", 1000) + "," + small("first", "l", 1) + "," + small("barred", "c", 900), 0.4},
      {weir::sim::Cause::pageable, "pageable", "h200", "in", in, 0.8},
  };
  for (const auto& one : cases) {
    const weir::Recording recording = weir::parse_recording(
        R"({"format":"weir.scenario","version":1,"streams":[{"name":"s","kind":"non_blocking"},{"name":"t","kind":"non_blocking"},
        {"name":"b","kind":"blocking"},{"name":"c","kind":"blocking"},{"name":"l","kind":"legacy"}],"buffers":[{"name":"host","kind":")" +
        std::string(one.memory) +
        R"(","bytes":2000000},{"name":"data","kind":"device","bytes":2000000},{"name":"word","kind":"pinned","bytes":4},{"name":"place","kind":"device","bytes":4}],"program":[)" +
        one.program + R"(,{"op":"synchronize","all":true}]})");
    const Prediction prediction = weir::sim::predict(recording, {.profile = one.profile});
    const std::string_view name = weir::sim::name_of(one.cause);
    EXPECT_GT(prediction.cause_us[static_cast<std::size_t>(one.cause)], one.share * prediction.makespan_us) << name;
    const auto part = std::find_if(prediction.critical_path.begin(), prediction.critical_path.end(),
                                   [&](const weir::sim::PathPart& of) { return of.cause == one.cause; });
    ASSERT_NE(part, prediction.critical_path.end()) << name;
    ASSERT_NE(part->command, weir::sim::no_command) << name;
    if (*one.held != 0) {
      EXPECT_EQ(recording.id(part->command), one.held) << name;
    }
    if (one.cause == weir::sim::Cause::copy_order) {
      EXPECT_NEAR(with(prediction, in_turns), 4000, 0.01);
    }
  }
}
