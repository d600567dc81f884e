// After fork, the child's Weir is refused with a clear error, and the parent's goes on.
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "support/child.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"
#include "support/sanitizers.hpp"

namespace weir_test {
namespace {

/// Forks; `in_child` runs in the child, which then ends by `exit` (by _exit: false). Waits for it.
void fork_and_wait(const std::function<void()>& in_child, bool exit) {
  const pid_t child = fork();
  insist(child >= 0, "fork works");
  if (child == 0) {
    alarm(20);  // a child that hangs dies, and its parent says so
    in_child();
    // In a child, the leak check takes what the parent's other threads hold for lost.
    if (exit && !under_address_sanitizer) std::exit(0);
    std::_Exit(0);
  }
  int status = 0;
  insist(waitpid(child, &status, 0) == child, "waitpid works");
  insist(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the forked child ended well");
}

bool refused(const std::function<void()>& call) {
  return static_cast<bool>(fails_with(weir::Errc::process_forked, call));
}

WEIR_SCENE(the_child_is_refused) {
  weir::Stream s, other;
  weir::Event e = s.record();
  auto x = weir::zeros<int>(s, 100);
  auto p = weir::zeros<int>(weir::pinned, 100);
  Marker marker;
  s.synchronize();
  fork_and_wait(
      [&] {
        insist(refused([&] { s.synchronize(); }), "Stream::synchronize is refused");
        insist(refused([&] { mark(s, marker); }), "launch is refused");
        insist(refused([&] { weir::copy(s, p, x); }), "copy is refused");
        insist(refused([&] { weir::fill(s, x, 1); }), "fill is refused");
        insist(refused([&] { weir::host_call(s, [] {}); }), "host_call is refused");
        insist(refused([&] { s.record(e); }), "record is refused");
        insist(refused([&] { s.wait(e); }), "wait is refused");
        insist(refused([&] { (void)s.done(); }), "done is refused");
        insist(refused([&] { weir::synchronize(); }), "synchronize is refused");
        insist(refused([&] { weir::default_device().synchronize(); }), "Device::synchronize is refused");
        insist(refused([&] { const weir::Stream mine; }), "a new stream is refused");
        insist(refused([&] { (void)weir::zeros<int>(s, 10); }), "a new array is refused");
        insist(refused([&] { (void)x.to_host(); }), "to_host is refused");
      },
      false);
  mark(s, marker);
  other.wait(s);
  mark(other, marker, 2);
  other.synchronize();
  insist(marker.value() == 2, "the parent goes on");
  insist(x.to_host() == std::vector<int>(100, 0), "the parent's arrays are untouched");
}

WEIR_SCENE(the_child_of_a_busy_parent_is_refused) {
  Gate gate;
  Marker marker;
  weir::Stream s, n(weir::default_device(), {.blocking = false});
  gate.hold(s);
  mark(s, marker);
  insist(eventually([&] { return gate.begun() == 1; }), "the held kernel begins");
  fork_and_wait(
      [&] { insist(refused([&] { s.synchronize(); }), "waiting for work that does not exist here is refused"); },
      false);
  mark(n, marker, 5);
  n.synchronize();
  insist(marker.value() == 5, "the parent's workers go on");
  gate.open();
  s.synchronize();
  insist(marker.value() == 1, "the parent's held work goes on");
}

WEIR_SCENE(the_child_destroys_what_it_inherited) {
  auto stream = std::make_optional<weir::Stream>();
  auto event = std::make_optional<weir::Event>();
  auto array = std::make_optional(weir::zeros<int>(*stream, 100));
  auto pool = std::make_optional<weir::Pool>(weir::default_device());
  mark(*stream, Marker());
  fork_and_wait(
      [&] {
        array.reset();
        event.reset();
        pool.reset();
        stream.reset();
      },
      true);
  stream->synchronize();
}

/// Threads launch while one of them forks: no lock may be left shut in the child.
WEIR_SCENE(forks_while_others_launch) {
  Marker count, ended;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      weir::Stream s;
      int launched = 0;
      while (ended.value() == 0 && launched < 200'000) {
        count_up(s, count);
        if (++launched % 64 == 0) s.synchronize();
      }
      s.synchronize();
    });
  }
  weir::Stream s;
  for (int round = 0; round < 10; ++round) {
    fork_and_wait([&] { insist(refused([&] { s.synchronize(); }), "the child is refused"); }, round % 2 == 0);
  }
  ended.set(1);
  for (std::thread& thread : threads) thread.join();
  s.synchronize();
}

TEST(ProcessFork, the_child_is_refused_and_the_parent_goes_on) {
  EXPECT_TRUE(ended_well(play("the_child_is_refused")));
}
TEST(ProcessFork, the_child_of_a_busy_parent_is_refused) {
  EXPECT_TRUE(ended_well(play("the_child_of_a_busy_parent_is_refused")));
}
TEST(ProcessFork, the_child_destroys_what_it_inherited_and_exits) {
  EXPECT_TRUE(ended_well(play("the_child_destroys_what_it_inherited")));
}
// Neither sanitizer holds the locks of its own memory over a fork: the child can wait for them for ever.
TEST(ProcessFork, forks_while_others_launch) {
  if (under_thread_sanitizer || under_address_sanitizer) {
    GTEST_SKIP() << "a sanitizer's own locks do not survive a fork beside other threads";
  }
  EXPECT_TRUE(ended_well(play("forks_while_others_launch")));
}

}  // namespace
}  // namespace weir_test
