// What a group of collectives takes at its calls.
#include <gtest/gtest.h>

#include <vector>

#include <weir/collectives.hpp>
#include <weir/weir.hpp>

#include "injector.hpp"

namespace weir_test {
namespace {

/// The many small calls of a group cost little more than without it, which they did not where each group had to find room for them.
TEST(Groups, have_the_room_that_the_group_before_had) {
  const weir::Device device = weir::device("cpu");
  const std::vector<weir::Communicator> comms = weir::communicators({device, device});
  const std::vector<weir::Stream> streams = [&] {
    std::vector<weir::Stream> made;
    for (int r = 0; r < 2; ++r) made.emplace_back(device);
    return made;
  }();
  for (const bool first : {true, false}) {
    weir::CollectiveGroup group;
    if (!first) fail_allocation(Whose::this_thread, 0);
    for (int i = 0; i < 100; ++i) {
      for (std::size_t r = 0; r < 2; ++r) weir::barrier(streams[r], comms[r]);
    }
    if (!first) {
      EXPECT_FALSE(stop_failing()) << "a call in a group allocates";
    }
    group.end();
    for (const weir::Stream& stream : streams) stream.synchronize();
  }
}

}  // namespace
}  // namespace weir_test
