// A process that says nothing: dead where it is stopped, and not yet where it may be waiting for a processor.
#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "ranks/control.hpp"
#include "ranks/message.hpp"

namespace {

using weir::detail::Control;
using weir::detail::may_run;
using weir::detail::RankClock;
using weir::detail::RankProcess;
using weir::detail::this_process;

/// A process that does nothing, until it is killed.
class Child {
 public:
  Child() : number_(fork()) {
    while (number_ == 0) pause();
    if (number_ < 0) throw std::runtime_error("no process for the test");  // -1 would stand for all that there are
  }
  ~Child() {
    kill(number_, SIGKILL);
    waitpid(number_, nullptr, 0);
  }
  void stop() const {
    kill(number_, SIGSTOP);
    waitpid(number_, nullptr, WUNTRACED);
  }
  RankProcess process() const { return {this_process().machine, static_cast<std::uint64_t>(number_)}; }

 private:
  const pid_t number_;
};

/// Rank 0's communicator: when it heard that it failed.
class Hears final : public weir::detail::RankListener {
 public:
  Answer answer(std::uint64_t, std::uint64_t) override { return {}; }
  void verdict(weir::Errc, const std::vector<int>&, const std::string&) override { failed = true; }
  void left(int, std::uint64_t, const std::vector<PairCounts>&) override {}
  void dead(int, const std::string&) override {}
  void split(std::uint64_t, const std::vector<Choice>&) override {}
  std::atomic<bool> failed{false};
};

constexpr std::chrono::milliseconds silence{1000};

/// From the last word of rank 1, which is the process, until rank 0 says that it is gone.
std::chrono::nanoseconds silence_of(const RankProcess& process) {
  auto [listening, port] = weir::detail::listen_at("127.0.0.1", 0);
  const auto settings_of = [port = port](int rank) {
    Control::Settings settings;
    settings.rank = rank;
    settings.size = 2;
    settings.secret = "secret";
    settings.address = "127.0.0.1";
    settings.port = port;
    settings.silence = silence;
    settings.deadline = RankClock::now() + std::chrono::seconds(20);
    return settings;
  };
  std::unique_ptr<Control> silent;  // it never starts to tell of itself
  std::thread other([&] {
    Control::Settings settings = settings_of(1);
    settings.process = process;
    silent = std::make_unique<Control>(std::move(settings));
  });
  Control::Settings settings = settings_of(0);
  settings.listening = std::move(listening);
  std::optional<Control> control(std::in_place, std::move(settings));
  other.join();
  const auto hears = std::make_shared<Hears>();
  control->attach(0, hears);
  const auto began = RankClock::now();
  control->start();
  while (!hears->failed) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return RankClock::now() - began;
}

}  // namespace

TEST(RankSilence, of_a_process_that_may_run_is_borne_longer_than_that_of_one_that_is_stopped) {
  const Child child;
  EXPECT_GE(silence_of(child.process()), 5 * silence);
  child.stop();
  EXPECT_LT(silence_of(child.process()), 5 * silence);
}
TEST(RankSilence, of_a_process_elsewhere_counts_as_before) {
  EXPECT_LT(silence_of({}), 5 * silence);
  EXPECT_LT(silence_of({this_process().machine + 1, this_process().number}), 5 * silence);
}
TEST(RankSilence, is_all_that_is_left_of_one_that_has_ended) {
  EXPECT_TRUE(may_run(this_process()));
  std::optional<Child> child(std::in_place);
  const RankProcess gone = child->process();
  EXPECT_TRUE(may_run(gone));
  child.reset();
  EXPECT_FALSE(may_run(gone));
}
