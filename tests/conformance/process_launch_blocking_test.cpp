// WEIR_LAUNCH_BLOCKING=1 and CUDA_LAUNCH_BLOCKING=1 make every launch synchronous, for debugging; WEIR_DEVICE names the
// default device.
#include <chrono>
#include <initializer_list>
#include <string_view>
#include <thread>
#include <vector>

#include "support/child.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

struct TakeTime {
  WEIR_KERNEL void operator()(std::size_t, int* word, int value) const {
#if !defined(__CUDA_ARCH__)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
#endif
    store_word(word, value);
  }
};
struct TakeTimeInBlocks {
  WEIR_KERNEL void operator()(weir::Block& block, int* word, int value) const {
    block.each([&](std::size_t thread) { TakeTime{}(thread, word, value); });
  }
};

/// Every kind of launch is over when its call returns.
WEIR_SCENE(launches_are_synchronous) {
  for (const weir::Device& device : weir::devices()) {
    const weir::ScopedDevice scope(device);
    const weir::Stream blocking(device), other(device, {.blocking = false});
    Marker marker;
    int turn = 0;
    for (int round = 0; round < 5; ++round) {
      for (const weir::StreamRef s : {weir::StreamRef(blocking), weir::StreamRef(other), weir::get_stream(device),
                                      weir::legacy_stream(device), weir::per_thread_stream(device)}) {
        ++turn;
        weir::launch(s, 1, TakeTime{}, marker.word(), turn);
        insist(marker.value() == turn, "a launch has run when it returns");
        ++turn;
        weir::launch_blocks(s, {.blocks = 1, .threads = 1}, TakeTimeInBlocks{}, marker.word(), turn);
        insist(marker.value() == turn, "a cooperative launch has run when it returns");
      }
      ++turn;
      weir::launch(1, TakeTime{}, marker.word(), turn);
      insist(marker.value() == turn, "a launch on the current stream has run when it returns");
    }
    device.synchronize();
  }
}

/// Ordering by events still works, behind held work of another thread.
WEIR_SCENE(synchronous_launches_keep_the_order) {
  Gate gate;
  Marker marker;
  const weir::Stream a, b;
  std::thread holding([&] { gate.hold(a); });
  insist(eventually([&] { return gate.begun() == 1; }), "the held kernel begins");
  b.wait(a);
  std::thread opening([&] { gate.open(); });
  mark(b, marker);
  insist(marker.value() == 1, "the launch has run when it returns");
  insist(gate.is_open(), "the launch came after what it waited for");
  opening.join();
  holding.join();
}

/// Keeps what the host has waited for.
class BlockingWaits : public weir::Observer {
 public:
  BlockingWaits() { weir::attach(*this, weir::Watch::host | weir::Watch::commands); }
  ~BlockingWaits() override { weir::detach(*this); }
  void waited(const weir::HostWait& wait) override { all.push_back(wait); }
  std::vector<weir::HostWait> all;
};

/// With the variable observers are told that a launch has waited, and for which stream.
WEIR_SCENE(blocking_launches_tell_what_they_waited_for) {
  const weir::Stream s;
  Marker marker;
  mark(s, marker);
  BlockingWaits waits;
  const auto turn = [&] {
    waits.all.clear();
    weir::launch(s, 1, TakeTime{}, marker.word(), 2);
    insist(waits.all.size() == 1, "a launch waits once");
    insist(waits.all[0].source == weir::HostWait::Source::launch_blocking, "the wait says what made it");
    insist(waits.all[0].kind == weir::HostWait::Kind::stream && waits.all[0].stream == s.id(),
           "the wait is for the launch's stream");
    insist(waits.all[0].where.line() != 0 && !waits.all[0].backend.empty(), "the wait has a line and a backend");
  };
  turn();
  turn();
}

/// Without the variable a launch returns while its kernel is held.
WEIR_SCENE(launches_are_asynchronous) {
  Gate gate;
  const weir::Stream s;
  insist(static_cast<bool>(returns_while_held(gate, [&] { gate.hold(s); })),
         "the launch returns while the gate is shut");
  insist(!s.done(), "the kernel is still held");
  gate.open();
  s.synchronize();
}

TEST(ProcessLaunchBlocking, W3_C3_R184_one_variable_makes_launches_synchronous) {
  EXPECT_TRUE(ended_well(play("launches_are_synchronous", {"WEIR_LAUNCH_BLOCKING=1", "CUDA_LAUNCH_BLOCKING=0"})));
}
TEST(ProcessLaunchBlocking, C3_R184_cudas_own_variable_does_the_same) {
  EXPECT_TRUE(ended_well(play("launches_are_synchronous", {"CUDA_LAUNCH_BLOCKING=1"})));
}
TEST(ProcessLaunchBlocking, tells_observers_that_the_host_has_waited) {
  EXPECT_TRUE(ended_well(play("blocking_launches_tell_what_they_waited_for", {"WEIR_LAUNCH_BLOCKING=1"})));
}
TEST(ProcessLaunchBlocking, C3_synchronous_launches_keep_the_order) {
  EXPECT_TRUE(ended_well(play("synchronous_launches_keep_the_order", {"WEIR_LAUNCH_BLOCKING=1"})));
}
/// The error of a default device that does not exist names the variable and the line of the call, whichever needs it.
WEIR_SCENE(unknown_default_device) {
  const auto refused = [](auto&& call) {
    try {
      call();
      insist(false, "the call throws");
    } catch (const weir::Error& error) {
      const std::string_view text(error.what());
      insist(error.errc() == weir::Errc::unknown_device, "the error is unknown_device");
      insist(text.find("WEIR_DEVICE") != std::string_view::npos, "the error names the variable");
      insist(text.find("'toaster'") != std::string_view::npos, "the error names its value");
      insist(text.find("process_launch_blocking_test.cpp") != std::string_view::npos,
             "the error names the call's line");
    }
  };
  refused([] { (void)weir::default_device(); });
  refused([] { (void)weir::get_stream(); });
  refused([] { const weir::Stream stream; });
  refused([] { const weir::Event event; });
  refused([] { const weir::GraphBuilder builder; });
  refused([] { (void)weir::zeros<int>(10); });
  refused([] { weir::launch(1, TakeTime{}, nullptr, 1); });
  refused([] { weir::synchronize_device(); });
  refused([] { (void)weir::record_event(); });
}
TEST(ProcessDefaultDevice, that_does_not_exist_is_named_with_the_variable_and_the_users_line) {
  EXPECT_TRUE(ended_well(play("unknown_default_device", {"WEIR_DEVICE=toaster"})));
}

TEST(ProcessLaunchBlocking, R185_the_value_0_has_no_effect) {
  EXPECT_TRUE(ended_well(play("launches_are_asynchronous", {"WEIR_LAUNCH_BLOCKING=0", "CUDA_LAUNCH_BLOCKING=0"})));
}

}  // namespace
}  // namespace weir_test
