// A thread that waits for room in a full stream holds up nobody else (R3, R208, R214).
#include <atomic>
#include <thread>
#include <vector>

#include "support/any_device.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

class Room : public AnyDevice {
 protected:
  static constexpr int more_than_fit = 3000;
};
ON_EVERY_DEVICE(Room);

//  full: [hold ......][+1] x 3,000      by a thread that may have to wait
//  others, which were idle:  the first launch, record, wait, host function, staged copy of new streams
TEST_P(Room, R214_a_thread_that_waits_for_room_holds_up_no_first_use_of_other_streams) {
  Gate gate;
  Marker count;
  weir::Stream full(device(), {.blocking = false});
  mark(full, count, 0);
  full.synchronize();
  device().synchronize();
  gate.hold(full);
  std::atomic<int> sent{0};
  std::thread thread([&] {
    for (; sent < more_than_fit; ++sent) count_up(full, count);
  });
  // It waits, or is through, when it makes no progress while other work is done.
  int before = -1;
  EXPECT_TRUE(eventually([&] {
    const int now = sent;
    const bool stands = now == before && stays(device(), [&] { return sent == now; });
    before = now;
    return stands;
  }));
  Marker marker(3);
  std::vector<weir::Stream> streams;
  std::vector<int> host(30'000, 7);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    for (int i = 0; i < 20; ++i) {
      weir::Stream& s = streams.emplace_back(device(), weir::StreamOptions{.blocking = i % 2 == 0});
      mark(s, marker);
      weir::Event e(device());
      s.record(e);
      streams.front().wait(e);
      weir::host_call(s, [word = marker.word(1)] { add_to_word(word, 1); });
    }
    auto x = weir::empty<int>(streams.back(), host.size());
    weir::copy(streams.back(), x, host);
    weir::copy(streams.back(), host, x);
    for (weir::Stream& s : streams) s.synchronize();
  }));
  EXPECT_EQ(marker.value(1), 20);
  gate.open();
  thread.join();
  full.synchronize();
  EXPECT_EQ(count.value(), more_than_fit);
}

}  // namespace
}  // namespace weir_test
