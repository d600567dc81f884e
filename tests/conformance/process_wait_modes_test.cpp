// How host threads wait: automatic, spin, yield, block; for a device, for all, and by WEIR_WAIT_MODE.
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "support/any_device.hpp"
#include "support/between_looks.hpp"
#include "support/child.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"
#include "support/thread_state.hpp"

namespace weir_test {
namespace {

class WaitModes : public AnyDevice {
 protected:
  void TearDown() override {
    weir::set_wait_mode(weir::WaitMode::automatic);
    AnyDevice::TearDown();
  }
};
ON_EVERY_DEVICE(WaitModes);

/// A thread that waits, as others see it.
class Waiting {
 public:
  template <class Wait>
  explicit Waiting(Wait wait)
      : thread_([this, wait] {
          id_.store(static_cast<int>(syscall(SYS_gettid)));
          wait();
        }) {
    for (int looks = 0; id_.load() == 0; ++looks) weir_test::between_looks(looks);
  }
  ~Waiting() { thread_.join(); }

  /// Runs, or is ready to, at many looks and for longer than any wait polls before it sleeps. It need not get a core.
  bool stays_awake() {
    const auto begin = std::chrono::steady_clock::now();
    for (int looks = 0; looks < 100 || std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(30);
         ++looks) {
      if (state() != 'R') return false;
    }
    return true;
  }
  bool sleeps() { return state() == 'S'; }

 private:
  char state() const { return state_of_thread(id_.load()); }

  std::atomic<int> id_{0};
  std::thread thread_;
};

TEST_P(WaitModes, spin_and_yield_stay_awake_and_block_sleeps) {
  if (on("cuda")) GTEST_SKIP() << "the driver waits";
  using weir::WaitMode;
  for (const WaitMode mode : {WaitMode::spin, WaitMode::yield, WaitMode::block, WaitMode::automatic}) {
    weir::set_wait_mode(device(), mode);
    ASSERT_EQ(weir::wait_mode(device()), mode);
    for (int what = 0; what < 3; ++what) {
      Gate gate;
      weir::Stream s(device());
      gate.hold(s);
      ASSERT_TRUE(eventually([&] { return gate.begun() == 1; }));
      const weir::Event reached = s.record();
      Waiting waiting([&, what] {
        if (what == 0) s.synchronize();
        if (what == 1) reached.synchronize();
        if (what == 2) device().synchronize();
      });
      const bool polls = mode == WaitMode::spin || mode == WaitMode::yield;
      EXPECT_TRUE(eventually([&] { return polls ? waiting.stays_awake() : waiting.sleeps(); }))
          << static_cast<int>(mode) << ", " << what;
      gate.open();
    }
  }
}

TEST_P(WaitModes, every_wait_ends_in_every_mode) {
  using weir::WaitMode;
  for (const WaitMode mode : {WaitMode::spin, WaitMode::yield, WaitMode::block, WaitMode::automatic}) {
    weir::set_wait_mode(device(), mode);
    for (int what = 0; what < 3; ++what) {
      Gate gate;
      Marker marker;
      weir::Stream s(device());
      gate.hold(s);
      mark(s, marker);
      const weir::Event reached = s.record();
      std::thread opening([&] {
        static_cast<void>(eventually([&] { return gate.begun() == 1; }));
        gate.open();
      });
      if (what == 0) s.synchronize();
      if (what == 1) reached.synchronize();
      if (what == 2) device().synchronize();
      EXPECT_EQ(marker.value(), 1) << static_cast<int>(mode) << ", " << what;
      opening.join();
    }
  }
}

TEST_P(WaitModes, of_the_process_are_those_of_all_devices) {
  weir::set_wait_mode(device(), weir::WaitMode::block);
  weir::set_wait_mode(weir::WaitMode::yield);
  for (const weir::Device& each : weir::devices()) EXPECT_EQ(weir::wait_mode(each), weir::WaitMode::yield);
  EXPECT_EQ(weir::wait_mode(device()), weir::WaitMode::yield);
}

TEST_P(WaitModes, that_are_none_are_refused) {
  const auto wrong = static_cast<weir::WaitMode>(17);
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [&] { weir::set_wait_mode(device(), wrong); },
                         {"weir::set_wait_mode", device().name(), "17"}));
  EXPECT_TRUE(
      fails_with(weir::Errc::invalid_value, [&] { weir::set_wait_mode(wrong); }, {"weir::set_wait_mode", "17"}));
  EXPECT_EQ(weir::wait_mode(device()), weir::WaitMode::automatic);
}

WEIR_SCENE(all_devices_spin) {
  for (const weir::Device& each : weir::devices()) {
    insist(weir::wait_mode(each) == weir::WaitMode::spin, "the mode is that of the variable");
  }
  const weir::Device later = weir::device("sim:h200");
  insist(weir::wait_mode(later) == weir::WaitMode::spin, "so is that of a device which is opened later");
}
/// The library starts before any scene does.
WEIR_SCENE(nothing_starts) { insist(false, "a wait mode that does not exist was refused"); }
TEST(ProcessWaitMode, comes_from_the_environment) {
  EXPECT_TRUE(ended_well(play("all_devices_spin", {"WEIR_WAIT_MODE=spin"})));
}
TEST(ProcessWaitMode, that_does_not_exist_is_named_with_the_variable) {
  const Outcome outcome = play("nothing_starts", {"WEIR_WAIT_MODE=sleepily"});
  EXPECT_NE(outcome.output.find("WEIR_WAIT_MODE: 'sleepily'"), std::string::npos) << outcome.output;
}

}  // namespace
}  // namespace weir_test
