// What a guard costs when nobody is told of it: counted by single steps, so that it is the same on every machine.
#include <csignal>
#include <cstdint>
#include <vector>

#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <weir/observer.hpp>
#include <weir/weir.hpp>

#include "support/sanitizers.hpp"

namespace {

/// What a child process executes between two stops.
struct Steps {
  std::int64_t all = 0;
  std::int64_t locked = 0;  ///< instructions that take a line of memory from the other cores
};

#ifdef __x86_64__
bool locks(pid_t child, std::uint64_t at) {
  const long word = ptrace(PTRACE_PEEKTEXT, child, at, nullptr);
  const auto first = static_cast<unsigned char>(word), second = static_cast<unsigned char>(word >> 8);
  const bool exchanges = first == 0x87 || ((first & 0xf0) == 0x40 && second == 0x87);
  return first == 0xf0 || exchanges;
}

/// Of `work` in a child process; none where it may not be watched.
template <class Work>
Steps steps_of(const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    std::raise(SIGSTOP);
    work();
    std::raise(SIGSTOP);
    _exit(0);
  }
  Steps made;
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) return {};
  constexpr std::int64_t most = 1'000'000;
  while (made.all < most && ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) == 0 && waitpid(child, &status, 0) > 0) {
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP) break;
    user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, child, nullptr, &registers) != 0) break;
    ++made.all;
    made.locked += locks(child, registers.rip) ? 1 : 0;
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return made;
}
#else
template <class Work>
Steps steps_of(const Work&) {
  return {};
}
#endif

/// Of one turn.
template <class Work>
Steps steps_of_one(const Work& work) {
  constexpr int few = 4, more = 20;
  const auto turns = [&](int count) {
    return steps_of([&] {
      for (int i = 0; i < count; ++i) work();
    });
  };
  const Steps before = turns(few), after = turns(more);
  if (before.all == 0 || after.all == 0) return {};
  return {(after.all - before.all) / (more - few), (after.locked - before.locked) / (more - few)};
}

// Some half more than g++ -O1 makes of them.
constexpr std::int64_t most_of_guard = 220;
constexpr std::int64_t most_of_call = 30;

class Quiet final : public weir::Observer {};

// One load decides: nothing is told, numbered or locked. An array is counted while a guard is there, as by any other handle.
TEST(UnwatchedGuards, are_some_instructions_and_take_no_line_of_memory) {
  if (weir_test::under_address_sanitizer || weir_test::under_thread_sanitizer)
    GTEST_SKIP() << "sanitizers add instructions of their own";
  std::vector<float> values(64);
  const auto x = weir::zeros<float>(weir::host, 64);
  const weir::HandOff handed;
  const auto read = [&] { static_cast<void>(weir::host_read(values)); };
  const auto give = [&] { handed.give(); };
  const Steps unwatched = steps_of_one(read);
  if (unwatched.all == 0) GTEST_SKIP() << "a process may not be watched here";
  for (const Steps& one : {unwatched, steps_of_one([&] { static_cast<void>(weir::host_write(values)); }),
                           steps_of_one([&] { static_cast<void>(weir::host_update(values)); })}) {
    EXPECT_LE(one.all, most_of_guard);
    EXPECT_EQ(one.locked, 0);
  }
  for (const Steps& one : {steps_of_one(give), steps_of_one([&] { handed.take(); }),
                           steps_of_one([&] { weir::host_gone(values.data(), 4); })}) {
    EXPECT_LE(one.all, most_of_call);
    EXPECT_EQ(one.locked, 0);
  }
  const Steps array = steps_of_one([&] { static_cast<void>(weir::host_read(x)); });
  EXPECT_LE(array.all, most_of_guard);
  EXPECT_LE(array.locked, 2);
  Quiet observer;
  weir::attach(observer);
  EXPECT_GT(steps_of_one(give).all, most_of_call) << "it is told now, which these steps show";
  EXPECT_GT(steps_of_one(give).locked, 0);
  weir::detach(observer);
}

}  // namespace
