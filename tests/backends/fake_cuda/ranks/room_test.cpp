// Streams of ranks that are full (R3): whoever moves the data does not wait for room in them.
#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <weir/launch.hpp>

#include "backends/fake_cuda/fake_cuda.hpp"
#include "ranks/world.hpp"

namespace {

using ranks_test::is_rank;
using ranks_test::shared;

constexpr std::size_t more_than_fit = 1500;

//  s of rank 0: |A| [event] |B| [no room left]      the others call A, whose memory goes back, and B when the event is reached
TEST(OnRanksRoom, what_a_call_gives_back_waits_for_no_room_in_a_full_stream) {
  if (!is_rank()) GTEST_SKIP() << "needs several processes: weir ranks, or mpirun";
  const char* const devices = std::getenv("WEIR_TEST_RANK_DEVICES");
  if (devices == nullptr || std::string_view(devices) != "cuda") GTEST_SKIP() << "streams of CPU devices have room";
  const weir::Communicator& comm = shared();
  const weir::Communicator others = comm.split(0, comm.rank());
  const weir::Stream s(ranks_test::device(), {.blocking = false});
  const weir::Stream beside(ranks_test::device(), {.blocking = false});
  constexpr std::size_t count = 100;
  constexpr int root = 1;
  const auto a = weir::full(s, count, comm.rank() + 1);
  const auto b = weir::full(s, count, comm.rank() + 10);
  const auto c = weir::full(s, count, 0);
  s.synchronize();
  const auto meet = [&] { weir::barrier(beside, others); };
  meet();  // nothing is made while a stream is full
  beside.synchronize();
  if (comm.rank() == 0) {
    weir::broadcast(s, comm, weir::inout(a), root);
    const weir::Event has_a = s.record();
    weir::broadcast(s, comm, weir::inout(b), root);
    std::thread filling([&] {
      for (std::size_t i = 0; i < more_than_fit; ++i) weir::fill(s, c, static_cast<int>(i));
    });
    while (fake_cuda::waiting_for_room() == 0) std::this_thread::yield();
    meet();
    has_a.synchronize();
    meet();
    filling.join();
  } else {
    meet();
    beside.synchronize();
    weir::broadcast(s, comm, weir::inout(a), root);
    meet();
    beside.synchronize();
    weir::broadcast(s, comm, weir::inout(b), root);
  }
  s.synchronize();
  beside.synchronize();
  EXPECT_EQ(a.to_host(), std::vector<int>(count, root + 1));
  EXPECT_EQ(b.to_host(), std::vector<int>(count, root + 10));
  EXPECT_EQ(c.to_host(), std::vector<int>(count, comm.rank() == 0 ? more_than_fit - 1 : 0));
}

}  // namespace
