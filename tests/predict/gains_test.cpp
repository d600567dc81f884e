// What predictions say would make a program faster, and that it does.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
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
