// The checker of a process that forks, whose disk is full, or whose host functions end it.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <weir/check.hpp>
#include <weir/weir.hpp>

#include "support/child.hpp"
#include "support/sanitizers.hpp"

namespace {

using weir_test::insist;
using weir_test::Outcome;
using weir_test::play;

struct Touch {
  WEIR_KERNEL void operator()(std::size_t, weir::View<float>) const {}
};

/// Memory is used by a stream that nothing orders behind the one that makes it. The kernel touches nothing.
void race() {
  const weir::Device device = weir::device("cpu");
  const weir::Stream own(device, {.blocking = false, .name = "own"}),
      other(device, {.blocking = false, .name = "other"});
  auto a = weir::zeros<float>(own, 16);
  weir::launch(other, 16, Touch{}, weir::inout(a));
  own.synchronize();
  other.synchronize();
}

/// Commands all the time, so that the checker's lock is often held.
class Busy {
 public:
  Busy() {
    for (int i = 0; i < 2; ++i) {
      threads_.emplace_back([this] {
        const weir::Stream s(weir::device("cpu"), {.blocking = false});
        auto x = weir::zeros<float>(s, 16);
        while (!over_) {
          weir::launch(s, 16, Touch{}, weir::inout(x));
          s.synchronize();
        }
      });
    }
  }
  ~Busy() {
    over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

void fork_and_wait(const std::function<void()>& in_child) {
  const pid_t child = fork();
  insist(child >= 0, "fork works");
  if (child == 0) {
    alarm(20);  // a child that hangs dies, and its parent says so
    in_child();
    std::_Exit(1);
  }
  int status = 0;
  insist(waitpid(child, &status, 0) == child, "waitpid works");
  insist(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the forked child ended with 0");
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

WEIR_SCENE(a_checked_process_forks) {
  race();
  for (int i = 0; i < 3; ++i) fork_and_wait([] { std::exit(0); });
  std::exit(0);
}

WEIR_SCENE(a_child_has_its_parents_checker) {
  weir::Checker checker({.mode = weir::CheckMode::print});
  race();
  {
    const Busy busy;
    for (int i = 0; i < 10; ++i) {
      fork_and_wait([&] {
        insist(checker.errors() == 0 && checker.findings().empty(), "a child's checker has found nothing");
        checker.clear();
        checker.finish();
        std::_Exit(0);
      });
    }
  }
  insist(checker.errors() == 1, "the parent's has found the hazard");
}

WEIR_SCENE(a_hazard_and_no_more) {
  race();
  std::exit(0);
}

const char* why_not_forked() {
  return weir_test::under_thread_sanitizer || weir_test::under_address_sanitizer
             ? "the sanitizer's own locks do not survive a fork beside other threads"
             : nullptr;
}

TEST(CheckedProcess, that_forks_tells_what_it_found_once) {
  if (why_not_forked() != nullptr) GTEST_SKIP() << why_not_forked();
  const Outcome outcome = play("a_checked_process_forks", {"WEIR_CHECK=print"});
  ASSERT_TRUE(outcome.ended) << outcome.output;
  EXPECT_TRUE(WIFEXITED(outcome.status) && WEXITSTATUS(outcome.status) == 66) << outcome.output;
  EXPECT_EQ(count(outcome.output, "hazard: "), 1u) << outcome.output;
  EXPECT_EQ(count(outcome.output, " 1 error,"), 1u) << outcome.output;
}

TEST(CheckedProcess, has_children_without_a_checker_of_their_own) {
  if (why_not_forked() != nullptr) GTEST_SKIP() << why_not_forked();
  const Outcome outcome = play("a_child_has_its_parents_checker");
  EXPECT_TRUE(ended_well(outcome));
  EXPECT_EQ(count(outcome.output, "hazard: "), 1u) << outcome.output;
}

TEST(CheckedProcess, loses_nothing_on_a_full_disk) {
  const Outcome outcome = play("a_hazard_and_no_more", {"WEIR_CHECK=collect,json=/dev/full"});
  ASSERT_TRUE(outcome.ended) << outcome.output;
  EXPECT_TRUE(WIFEXITED(outcome.status) && WEXITSTATUS(outcome.status) == 66) << outcome.output;
  EXPECT_NE(outcome.output.find("WEIR_CHECK: '/dev/full' cannot be written"), std::string::npos) << outcome.output;
  EXPECT_EQ(count(outcome.output, "hazard: use_before_alloc"), 1u) << outcome.output;
}

TEST(CheckedProcess, goes_on_when_a_host_function_ends_its_checker) {
  for (const weir::CheckMode mode : {weir::CheckMode::collect, weir::CheckMode::throw_error}) {
    const weir::Stream s(weir::device("cpu"));
    auto checker = std::make_unique<weir::Checker>(weir::CheckOptions{.mode = mode});
    weir::Errc errc{};
    weir::host_call(s, [&] {
      try {
        checker->finish();
      } catch (const weir::Error& error) {
        errc = error.errc();
      }
      checker.reset();
    });
    s.synchronize();
    EXPECT_EQ(errc, weir::Errc::not_permitted);
    weir::launch(s, 1, [](std::size_t) {});  // nobody is told who is gone
    s.synchronize();
  }
}

}  // namespace
