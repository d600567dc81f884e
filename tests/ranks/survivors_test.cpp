// What goes on among processes when one has failed: a communicator of the others.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "ranks/hub.hpp"
#include "ranks/programs.hpp"
#include "ranks/scenes.hpp"
#include "ranks/world.hpp"
#include "support/gate.hpp"

namespace {

using weir::detail::ControlMessage;
using weir::detail::Hub;
using weir::detail::Inquiry;
using weir::detail::split_of_survivors;
using Type = ControlMessage::Type;

/// What a hub of four ranks says of survivors; each rank's answer.
struct Survivors : ::testing::Test {
  std::vector<std::pair<int, ControlMessage>> told;
  Hub hub{{"a", "b", "c", "d"}, [this](int rank, const ControlMessage& message) {
            if (message.type == Type::splits) told.emplace_back(rank, message);
          }};
  void ask(int rank) { hub.take(rank, {Type::split, {0, split_of_survivors, 0, 0}}); }
  /// No answer of the others is needed when the time is over.
  void fail_by_death_of(int rank) {
    hub.died(rank, "it was killed");
    hub.look(weir::detail::RankClock::now() + std::chrono::seconds(1));
  }
};

/// Three processes run the scene; the third argument says what it prints.
std::string run(const std::string& scene) {
  const auto gates = std::filesystem::temp_directory_path() / ("weir-survivors-" + std::to_string(getpid()) + scene);
  std::filesystem::remove_all(gates);
  std::filesystem::create_directory(gates);
#ifdef WEIR_TEST_TOOL
  const std::string out = ranks_test::output_of(
      "export WEIR_TEST_GATES=" + gates.string() + "; timeout 60 " WEIR_TEST_TOOL " ranks -n 3 --grace 30 --raw -- " +
      ranks_test::own_program() + " --gtest_brief=1 --gtest_filter=SurvivorScene." + scene);
#else
  const std::string out;
#endif
  std::filesystem::remove_all(gates);
  return out;
}

class SurvivorScene : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ranks_test::is_rank() || std::getenv("WEIR_TEST_GATES") == nullptr) GTEST_SKIP() << "Survivors.* start it";
    comm_ = ranks_test::make({.name = "grads", .timeout = std::chrono::seconds(60)});
    const weir::Stream s(ranks_test::device());
    weir::barrier(s, comm_);
    s.synchronize();
    ranks_test::SharedGate(std::to_string(comm_.rank())).open();
    for (int r = 0; r < comm_.size(); ++r) ranks_test::SharedGate(std::to_string(r)).wait();
  }
  /// The communicator fails, or has.
  void fail() {
    weir::Stream s(ranks_test::device());
    try {
      weir::barrier(s, comm_);
      s.synchronize();
      std::printf("rank %d saw nothing\n", comm_.rank());
    } catch (const weir::Error&) {
    }
    try {
      s.synchronize();
    } catch (const weir::Error&) {
    }
  }
  /// This rank's stream fails before its call.
  void fail_here() {
    weir::Stream s(ranks_test::device());
    weir::host_call(s, [] { throw std::runtime_error("the disk is full"); });
    for (int i = 0; i < 2; ++i) {
      try {
        if (i == 0) weir::barrier(s, comm_);
        s.synchronize();
      } catch (const weir::Error&) {
      }
    }
  }
  void say_who_ends() const {
    if (comm_.rank() != 0) return;
    std::ofstream(ranks_test::SharedGate("first.new").path()) << getpid() << std::flush;
    std::filesystem::rename(ranks_test::SharedGate("first.new").path(), ranks_test::SharedGate("first").path());
  }
  static void await_end_of_first() {
    ranks_test::SharedGate("first").wait();
    pid_t first = 0;
    std::ifstream(ranks_test::SharedGate("first").path()) >> first;
    while (kill(first, 0) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  /// Sums of the ranks before, by those that are left.
  void go_on() {
    try {
      const weir::Communicator rest = comm_.without_failed();
      ranks_test::SharedGate("asked").open();
      weir::Stream s(ranks_test::device());
      for (const std::size_t count : {1u, 100'000u}) {
        const auto x = weir::full<int>(s, count, 1 << comm_.rank());
        weir::all_reduce(s, rest, weir::inout(x));
        s.synchronize();
        const std::vector<int> sums = x.to_host();
        std::printf("rank %d is %d of %d in %s: %d\n", comm_.rank(), rest.rank(), rest.size(), rest.name().c_str(),
                    sums.back());
      }
    } catch (const weir::Error& error) {
      std::printf("rank %d stays: %s: %s\n", comm_.rank(), ranks_test::name_of(error.errc()), error.what());
    }
    std::fflush(stdout);
  }

  weir::Communicator comm_;
};

void expect_words(const std::string& out, const std::vector<std::string>& words) {
#ifndef WEIR_TEST_TOOL
  GTEST_SKIP() << "needs the tool";
#endif
  for (const std::string& word : words) EXPECT_NE(out.find(word), std::string::npos) << word << " in\n" << out;
}

}  // namespace

TEST_F(Survivors, are_told_when_all_that_did_not_fail_have_asked) {
  ask(0);
  ask(3);
  EXPECT_TRUE(told.empty()) << "nothing has failed";
  fail_by_death_of(1);
  EXPECT_TRUE(told.empty()) << "rank 2 has not asked";
  ask(2);
  ASSERT_EQ(told.size(), 3u);
  for (const auto& [rank, message] : told) {
    EXPECT_NE(rank, 1);
    ASSERT_EQ(message.numbers.size(), 2u + 3 * 4);
    for (std::size_t r = 0; r < 4; ++r) EXPECT_EQ(message.numbers[2 + 3 * r], r == 1 ? 1u : 0u);
  }
}
TEST_F(Survivors, do_not_wait_for_one_that_is_gone_meanwhile) {
  fail_by_death_of(1);
  ask(0);
  ask(2);
  hub.take(3, {Type::left, {0, 0, 0}, {}});
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].second.numbers[2 + 3 * 3], 1u);
}
TEST_F(Survivors, that_are_none_hear_so_when_the_others_have_gone_on) {
  hub.take(1, {Type::report, {0, static_cast<std::uint64_t>(Inquiry::stream_failed), 1, 1}, {"rank 1 failed"}});
  hub.look(weir::detail::RankClock::now() + std::chrono::seconds(1));
  for (const int rank : {0, 2, 3}) ask(rank);
  ASSERT_EQ(told.size(), 3u);
  told.clear();
  ask(1);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].first, 1);
  EXPECT_EQ(told[0].second.numbers.at(2 + 3 * 1), 1u);
}
TEST_F(Survivors, of_survivors_are_found_as_well) {
  fail_by_death_of(1);
  for (const int rank : {0, 2, 3}) ask(rank);
  const std::uint64_t theirs = told.at(0).second.numbers[4];
  told.clear();
  fail_by_death_of(3);
  for (const int rank : {0, 2}) hub.take(rank, {Type::split, {theirs, split_of_survivors, 0, 0}});
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].second.numbers[0], theirs);
}

TEST(SurvivingProcesses, go_on_without_one_that_was_killed) {
  expect_words(run("killed"), {"rank 0 is 0 of 2 in grads': 5", "rank 2 is 1 of 2 in grads': 5"});
}
TEST(SurvivingProcesses, go_on_without_one_whose_stream_failed_which_hears_that_it_did) {
  expect_words(run("stream_failed"), {"rank 0 is 0 of 2 in grads': 5", "rank 2 is 1 of 2 in grads': 5",
                                      "rank 1 stays: rank_failed: weir::", "this rank is one that failed"});
}
TEST(SurvivingProcesses, that_are_none_know_it_without_the_first_one) {
  expect_words(run("stream_failed_and_alone"), {"rank 1 stays: rank_failed: weir::", "this rank is one that failed"});
}
TEST(SurvivingProcesses, hear_that_the_first_one_has_ended_while_they_wait_for_its_answer) {
  const std::string out = run("first_one_ends");
  expect_words(out, {"rank 1 stays: rank_failed: ", "rank 2 stays: "});
  expect_words(out.substr(std::min(out.find("rank 1 stays"), out.size())),
               {"rank 0's process is gone, which would say who"});
}
TEST(SurvivingProcesses, that_split_behind_the_end_of_the_first_one_are_told_at_once) {
  const std::string why = " cannot split: rank_failed: weir::Communicator::size: ";
  expect_words(run("split_behind_first"), {"rank 1" + why, "rank 2" + why, "rank 0's process is gone"});
}
TEST(SurvivingProcesses, are_all_of_them_where_nobody_is_to_blame) {
  expect_words(run("aborted"), {"rank 0 is 0 of 3 in grads': 7", "rank 2 is 2 of 3 in grads': 7"});
}
TEST(SurvivingProcesses, need_the_first_one) {
  expect_words(run("killed_first"),
               {"rank 1 stays: ", "rank 2 stays: ", "rank 0's process is gone, which would say who"});
}

TEST(SurvivingProcesses, make_calls_of_other_communicators_while_their_devices_are_busy) {
  expect_words(run("killed_beside_another"), {"rank 0 went on with others: 5", "rank 2 went on with others: 5"});
}

TEST_F(SurvivorScene, killed) {
  if (comm_.rank() == 1) kill(getpid(), SIGKILL);
  fail();
  go_on();
}
TEST_F(SurvivorScene, killed_first) {
  if (comm_.rank() == 0) kill(getpid(), SIGKILL);
  fail();
  go_on();
}
TEST_F(SurvivorScene, aborted) {
  if (comm_.rank() == 1) comm_.abort();
  fail();
  go_on();
}
TEST_F(SurvivorScene, stream_failed) {
  if (comm_.rank() == 1) {
    fail_here();
  } else {
    fail();
  }
  go_on();
}
TEST_F(SurvivorScene, stream_failed_and_alone) {
  if (comm_.rank() == 1) {
    fail_here();
    await_end_of_first();
    go_on();
  } else {
    fail();
  }
  say_who_ends();
}
TEST_F(SurvivorScene, first_one_ends) {
  if (comm_.rank() == 1) comm_.abort();
  fail();
  say_who_ends();
  if (comm_.rank() == 0) {
    ranks_test::SharedGate("asked").wait();
    return;
  }
  if (comm_.rank() == 2) await_end_of_first();  // so that the other one waits for this one
  go_on();
}
TEST_F(SurvivorScene, split_behind_first) {
  say_who_ends();
  if (comm_.rank() == 0) return;
  await_end_of_first();
  try {
    std::printf("rank %d is one of %d\n", comm_.rank(), comm_.split(0, 0).size());
  } catch (const weir::Error& error) {
    std::printf("rank %d cannot split: %s: %s\n", comm_.rank(), ranks_test::name_of(error.errc()), error.what());
  }
  std::fflush(stdout);
}
//  s: |large of all| |large of all| ...   rank 1 is killed amid these     t: |of ranks 0 and 2|     busy: [gate]
TEST_F(SurvivorScene, killed_beside_another) {
  const int rank = comm_.rank();
  const weir::Communicator others = comm_.split(rank == 1 ? 1 : 0, rank);
  weir::Stream s(ranks_test::device(), {.blocking = false}), t(ranks_test::device(), {.blocking = false});
  const weir::Stream busy(ranks_test::device(), {.blocking = false});
  const bool in_pieces = std::getenv("WEIR_STAGED_PIECE") != nullptr;
  const auto large = weir::zeros<float>(s, in_pieces ? 1 << 14 : 1 << 22);
  const auto x = weir::full<int>(t, 100'000, 1 << rank);
  weir::all_reduce(t, others, weir::inout(x));
  t.synchronize();
  weir_test::Gate gate;
  gate.hold(busy);
  std::thread killer;
  if (rank == 1) {
    killer = std::thread([] {
      ranks_test::SharedGate("moving").wait();
      // Amid one of them: else there is no abort to be held up by. Nothing is asserted of the time.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      kill(getpid(), SIGKILL);
    });
    killer.detach();
  }
  try {
    for (int i = 0; i < 2000; ++i) {
      weir::all_reduce(s, comm_, weir::inout(large));
      if (i != 5) continue;
      s.synchronize();
      ranks_test::SharedGate("moving").open();
    }
    s.synchronize();
  } catch (const weir::Error&) {
  }
  const bool went_on = static_cast<bool>(weir_test::returns_while_held(gate, [&] {
    for (int i = 0; i < 20; ++i) {
      weir::all_reduce(t, others, weir::inout(x), weir::Maximum{});
      t.synchronize();
    }
  }));
  if (went_on) std::printf("rank %d went on with others: %d\n", rank, x.to_host().back());
  std::fflush(stdout);
  gate.open();
  try {
    s.synchronize();
  } catch (const weir::Error&) {
  }
}
