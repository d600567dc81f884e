// What a recorder keeps of the launches of loops, which it does not tell apart use by use.
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <weir/recorder.hpp>
#include <weir/scenario.hpp>
#include <weir/weir.hpp>

namespace {

using weir::Recording;
using weir::recorded::Command;
using weir::recorded::Op;
using weir::recorded::Use;

std::size_t count(const Recording& recording, Op op) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < recording.size(); ++i) found += recording.command(i).op == op ? 1 : 0;
  return found;
}

/// What the launch of that number uses.
std::string uses_of(const Recording& recording, std::size_t launch) {
  std::string text;
  for (std::size_t i = 0; i < recording.size(); ++i) {
    const Command& command = recording.command(i);
    if (command.op != Op::launch || launch-- > 0) continue;
    for (std::size_t use = 0; use < recording.use_count(command); ++use) {
      const Use one = recording.use(command, use);
      text += std::to_string(static_cast<int>(one.access)) + recording.text(recording.buffers()[one.buffer].name) +
              "+" + std::to_string(one.offset) + "," + std::to_string(one.bytes) + " ";
    }
    return text;
  }
  return text;
}

/// Through a file, which checks all that a scenario must keep.
Recording read_again(const Recording& recording) { return weir::parse_recording(weir::to_json(recording)); }

struct Eight {
  using In = weir::View<const float>;
  using Out = weir::View<float>;
  void operator()(std::size_t, In, In, In, In, Out, Out, Out, Out) const {}
};
struct Nothing {
  void operator()(std::size_t, weir::View<float>) const {}
};
struct Step {
  void operator()(std::size_t i, weir::View<const float> x, weir::View<float> y) const { y[i] += x[i]; }
};

TEST(Recorders, keep_once_what_the_launches_of_a_loop_use) {
  weir::Recorder recorder;
  weir::Stream stream(weir::device("cpu"));
  std::vector<weir::Array<float>> x;
  for (int i = 0; i < 8; ++i) x.push_back(weir::zeros<float>(stream, 16));
  constexpr std::size_t turns = 20000;
  for (std::size_t i = 0; i < turns; ++i) {
    weir::launch(stream, 1, Eight{}, weir::in(x[0]), weir::in(x[1]), weir::in(x[2]), weir::in(x[3]), weir::out(x[4]),
                 weir::out(x[5]), weir::inout(x[6]), weir::inout(x[7]));
  }
  stream.synchronize();
  const Recording recording = recorder.finish();
  EXPECT_LE(recording.bytes(), 85 * turns);  // of which 64 are the command and its cost; eight uses would be 32 more
  const std::string uses = uses_of(recording, 0);
  EXPECT_EQ(std::count(uses.begin(), uses.end(), ' '), 8);
  for (const std::size_t i : {std::size_t{1}, turns / 2, turns - 1}) EXPECT_EQ(uses_of(recording, i), uses) << i;
}

TEST(Recorders, keep_once_what_a_loop_uses_of_arrays_that_are_older) {
  weir::Stream stream(weir::device("cpu"));
  std::vector<weir::Array<float>> x;
  for (int i = 0; i < 8; ++i) x.push_back(weir::zeros<float>(stream, 16));
  weir::Recorder recorder;
  constexpr std::size_t turns = 20000;
  for (std::size_t i = 0; i < turns; ++i) {
    if (i == turns / 2) weir::fill(stream, x[4], 1.0f);
    weir::launch(stream, 1, Eight{}, weir::in(x[0]), weir::in(x[1]), weir::in(x[2]), weir::in(x[3]), weir::out(x[4]),
                 weir::out(x[5]), weir::inout(x[6]), weir::inout(x[7]));
  }
  stream.synchronize();
  const Recording recording = recorder.finish();
  EXPECT_LE(recording.bytes(), 85 * turns);
  EXPECT_EQ(count(recording, Op::launch), turns);
  const std::string uses = uses_of(recording, 0);
  EXPECT_EQ(std::count(uses.begin(), uses.end(), ' '), 8);
  for (const std::size_t i : {std::size_t{1}, turns / 2, turns - 1}) EXPECT_EQ(uses_of(recording, i), uses) << i;
  read_again(recording);
}

//  one kernel and one array: lines, streams, threads and names by turns
TEST(Recorders, keep_of_each_launch_of_a_loop_who_made_it_and_where) {
  weir::Recorder recorder;
  weir::Stream one(weir::device("cpu"), {.name = "one"}), other(weir::device("cpu"), {.name = "other"});
  auto x = weir::zeros<float>(one, 8);
  std::uint32_t line = 0;
  const auto turn = [&] {
    line = __LINE__;
    weir::launch(one, 8, Nothing{}, weir::inout(x));
    weir::launch(one, 8, Nothing{}, weir::inout(x));
    weir::launch(other, 8, Nothing{}, weir::inout(x));
    weir::launch(other, weir::Extent{.size = 8, .name = "called so"}, Nothing{}, weir::inout(x));
    weir::launch(one, 8, Nothing{}, weir::out(x));
  };
  for (int i = 0; i < 3; ++i) turn();
  std::thread(turn).join();
  turn();
  weir::synchronize();
  const Recording recording = recorder.finish();
  std::vector<Command> launches;
  for (std::size_t i = 0; i < recording.size(); ++i) {
    if (recording.command(i).op == Op::launch) launches.push_back(recording.command(i));
  }
  ASSERT_EQ(launches.size(), 25u);
  for (std::size_t i = 0; i < launches.size(); ++i) {
    EXPECT_EQ(launches[i].line, line + 1 + i % 5) << i;
    const bool on_other = i % 5 == 2 || i % 5 == 3;
    EXPECT_STREQ(recording.text(recording.streams()[launches[i].stream].name), on_other ? "other" : "one") << i;
    EXPECT_EQ(launches[i].thread != launches[0].thread, i / 5 == 3) << i;
    EXPECT_EQ(std::string(recording.text(launches[i].name)) == "called so", i % 5 == 3) << i;
    EXPECT_EQ(recording.use(launches[i], 0).access == weir::recorded::Access::out, i % 5 == 4) << i;
    const auto cost = recording.cost(launches[i]);
    EXPECT_TRUE(cost && cost->ns) << i;
  }
}

TEST(Recorders, tell_the_arrays_of_a_loops_turns_apart) {
  weir::Recorder recorder;
  weir::Stream stream(weir::device("cpu"));
  auto kept = weir::zeros<float>(stream, 16);
  for (int i = 0; i < 3; ++i) {
    auto temporary = weir::zeros<float>(stream, 16);  // where the one of the turn before was
    for (int j = 0; j < 2; ++j) {
      weir::launch(stream, 16, Step{}, weir::in(kept), weir::inout(temporary));
      weir::launch(stream, 16, Step{}, weir::in(temporary), weir::inout(kept));
    }
  }
  stream.synchronize();
  const Recording recording = read_again(recorder.finish());
  for (std::size_t turn = 0; turn < 3; ++turn) {
    const std::string there = uses_of(recording, 4 * turn), back = uses_of(recording, 4 * turn + 1);
    EXPECT_NE(there, back);
    EXPECT_EQ(uses_of(recording, 4 * turn + 2), there);
    EXPECT_EQ(uses_of(recording, 4 * turn + 3), back);
    if (turn > 0) {
      EXPECT_NE(uses_of(recording, 4 * (turn - 1)), there);
    }
  }
}

}  // namespace
