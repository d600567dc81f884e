// Communicators that are made while other ones' calls stand in streams: NCCL waits for all that its GPUs have.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <weir/collectives.hpp>

#include "backends/cuda/collectives/standing_waits.hpp"
#include "backends/fake_cuda/fake_cuda.hpp"
#include "collectives/ranks.hpp"

namespace weir_test {
namespace {

using weir::inout;

constexpr const char* made_by = "ncclCommInitAll";
constexpr const char* freed_by = "ncclCommDestroy";
constexpr const char* word_waited_by = "cuStreamWaitValue32";

std::size_t waiting() { return weir::cuda::StandingWaits::instance().waiting(); }

std::vector<weir::Array<int>> ones(const Ranks& ranks) {
  return ranks.arrays<int>(many, [](std::size_t, std::size_t) { return 1; });
}

/// No communicator of these GPUs was made before in this program. What NCCL has of failed ones is freed before.
class MakingOfAnother {
 public:
  MakingOfAnother() : before_(calls()), thread_([this] { make(); }) {}
  ~MakingOfAnother() { thread_.join(); }
  MakingOfAnother(const MakingOfAnother&) = delete;
  MakingOfAnother& operator=(const MakingOfAnother&) = delete;

  bool is_in_nccl() const { return calls() > before_; }
  bool is_over() const { return over_; }

 private:
  static std::uint64_t calls() { return fake_cuda::calls(made_by) + fake_cuda::calls(freed_by); }
  void make() {
    static std::atomic<std::size_t> rounds{0};
    const std::size_t third = 2 + rounds.fetch_add(1) % 5;
    static_cast<void>(weir::communicators({device_of(1), device_of(third), device_of(0)}));
    over_ = true;
  }

  const std::uint64_t before_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

//  s0: [host function] |A| mark, where a word is waited for      and another thread makes a communicator
TEST(CommunicatorsMade, wait_for_calls_that_are_whole_and_cannot_be_handed_over_yet) {
  const Ranks ranks(2);
  const auto x = ones(ranks);
  ranks.synchronize();
  Gate gate;
  gate.hold_by_host_call(ranks.streams[0]);
  for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  const Marker after;
  mark(ranks.streams[0], after);
  const MakingOfAnother making;
  EXPECT_TRUE(eventually([&] { return making.is_in_nccl() || waiting() == 1; }));
  gate.open();
  EXPECT_TRUE(eventually([&] { return making.is_over(); }));
  ranks.synchronize();
  EXPECT_EQ(after.value(), 1);
  EXPECT_EQ(x[1].to_host(), ints(many, 2));
}

//  while NCCL is about to make a communicator:  s0: |A| mark   then  s1: |A|
TEST(CommunicatorsMade, keep_out_of_streams_what_waits_for_calls_that_come_meanwhile) {
  const Ranks ranks(2);
  const auto x = ones(ranks);
  ranks.synchronize();
  const Marker after(2);
  std::optional<fake_cuda::HoldCalls> held(made_by);
  const MakingOfAnother making;
  EXPECT_TRUE(eventually([&] { return making.is_in_nccl(); }));
  const std::uint64_t waits = fake_cuda::returned_calls(word_waited_by);
  std::thread calling([&] {
    for (std::size_t r = 0; r < 2; ++r) {
      weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
      mark(ranks.streams[r], after, 1, r);
    }
  });
  EXPECT_TRUE(eventually([&] { return waiting() == 1 || fake_cuda::returned_calls(word_waited_by) > waits; }));
  held.reset();
  EXPECT_TRUE(eventually([&] { return making.is_over(); }));
  calling.join();
  ranks.synchronize();
  EXPECT_EQ(after.value(0) + after.value(1), 2);
  EXPECT_EQ(x[1].to_host(), ints(many, 2));
}

/// A thread that waits for a stream to end with an error.
class EndOf {
 public:
  EndOf(const weir::Stream& stream, weir::Errc error)
      : thread_([this, &stream, error] {
          EXPECT_TRUE(fails_with(error, [&] { stream.synchronize(); }));
          over_ = true;
        }) {}
  ~EndOf() { thread_.join(); }
  EndOf(const EndOf&) = delete;
  EndOf& operator=(const EndOf&) = delete;

  bool is_over() const { return over_; }

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

//  s0: |A|     s1: [gate] |A|     NCCL has both, and makes another communicator meanwhile
TEST(CommunicatorsMade, keep_no_call_that_is_stuck_from_its_end) {
  const Ranks ranks(2);
  const auto x = ones(ranks);
  ranks.synchronize();
  Gate gate;
  gate.hold(ranks.streams[1]);
  for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  std::optional<fake_cuda::HoldCalls> held(made_by);
  const MakingOfAnother making;
  EXPECT_TRUE(eventually([&] { return making.is_in_nccl(); }));
  ranks.comms[1].abort();
  const EndOf end(ranks.streams[0], weir::Errc::rank_failed);
  EXPECT_TRUE(eventually([&] { return end.is_over(); }));
  EXPECT_FALSE(making.is_over());
  gate.open();
  held.reset();
  EXPECT_TRUE(eventually([&] { return making.is_over(); }));
  EXPECT_TRUE(fails_with(weir::Errc::rank_failed, [&] { ranks.streams[1].synchronize(); }));
}

//  s0: [gate] |A|     s1: [gate] |A|     b0: [host function] |B|     NCCL makes another communicator, then b0 comes to its part, then s0
TEST(CommunicatorsMade, put_no_timeout_off) {
  const Ranks ranks(2, {.timeout = std::chrono::milliseconds(300)});
  const Ranks beside(2);
  const auto x = ones(ranks), y = ones(beside);
  ranks.synchronize();
  beside.synchronize();
  Gate first, second, third;
  first.hold(ranks.streams[0]);
  second.hold(ranks.streams[1]);
  third.hold_by_host_call(beside.streams[0]);
  for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(beside.streams[r], beside.comms[r], inout(y[r]));
  std::optional<fake_cuda::HoldCalls> held(made_by);
  const MakingOfAnother making;
  EXPECT_TRUE(eventually([&] { return making.is_in_nccl(); }));
  third.open();
  EXPECT_TRUE(eventually([&] { return third.begun() == 1; }));
  first.open();
  const EndOf end(ranks.streams[0], weir::Errc::collective_timeout);
  EXPECT_TRUE(eventually([&] { return end.is_over(); }));
  EXPECT_FALSE(making.is_over());
  second.open();
  held.reset();
  EXPECT_TRUE(eventually([&] { return making.is_over(); }));
  beside.synchronize();
  EXPECT_EQ(y[1].to_host(), ints(many, 2));
  EXPECT_TRUE(fails_with(weir::Errc::collective_timeout, [&] { ranks.streams[1].synchronize(); }));
}

//  s0: |A| mark, where a word is waited for      B, of split(), on other streams: whole, and not made yet      then s1: |A|
TEST(CommunicatorsMade, at_their_first_call_come_behind_calls_that_streams_wait_for) {
  const Ranks ranks(3);
  std::vector<weir::Communicator> parts;
  for (int r = 0; r < 3; ++r) parts.push_back(ranks.comms[static_cast<std::size_t>(r)].split(0, (r + 1) % 3));
  std::vector<weir::Stream> streams;
  for (std::size_t r = 0; r < 3; ++r) streams.emplace_back(device_of(r));
  const auto x = ones(ranks), y = ones(ranks);
  ranks.synchronize();
  const auto call = [&](std::size_t r) { weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r])); };
  const Marker after;
  call(0);
  mark(ranks.streams[0], after);
  for (std::size_t r = 0; r < 3; ++r) weir::all_reduce(streams[r], parts[r], inout(y[r]));
  call(1);
  call(2);
  for (const weir::Stream& stream : streams) stream.synchronize();
  ranks.synchronize();
  EXPECT_EQ(after.value(), 1);
  EXPECT_EQ(x[2].to_host(), ints(many, 3));
  EXPECT_EQ(y[2].to_host(), ints(many, 3));
}

}  // namespace
}  // namespace weir_test
