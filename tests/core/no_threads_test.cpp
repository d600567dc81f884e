// Where the system starts no more threads, the CPU says so, and waiting and polling run what they ask for.
#include "backends/cpu/workers/thread_start.hpp"
#include "support/child.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

template <class Done>
bool polled(Done&& done) {
  for (int turn = 0; turn < 1000; ++turn) {
    if (done()) return true;
  }
  return false;
}

WEIR_SCENE(no_thread_can_be_started) {
  weir::cpu::refuse_threads(true);
  const weir::Device cpu = weir::device("cpu");
  Marker count;
  const weir::Stream a(cpu), b(cpu), c(cpu);
  for (int i = 0; i < 10; ++i) count_up(a, count);
  insist(polled([&] { return a.done(); }), "a stream that is polled runs");
  count_up(a, count);
  const weir::Event event = a.record();
  b.wait(event);
  count_up(b, count, 1000);
  insist(polled([&] { return b.done(); }), "so does what it waits for");
  count_up(c, count);
  const weir::Event last = c.record();
  insist(polled([&] { return last.done(); }), "an event that is polled is reached");
  count_up(c, count);
  insist(polled([&] { return weir::legacy_stream(cpu).done(); }), "the legacy stream stands for all");
  count_up(a, count);
  a.synchronize();
  insist(count.value() == 10 + 1 + 1000 + 3, "everything ran once");
  weir::cpu::refuse_threads(false);
  const weir::Stream d(cpu);
  count_up(d, count);
  insist(eventually([&] { return count.value() == 10 + 1 + 1000 + 4; }), "with threads, work runs by itself again");
}

TEST(NoThreads, polling_makes_progress_and_one_line_says_why_it_must) {
  const Outcome outcome = play("no_thread_can_be_started");
  EXPECT_TRUE(ended_well(outcome));
  EXPECT_NE(outcome.output.find("weir: no thread can be started"), std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find("weir: no thread"), outcome.output.rfind("weir: no thread")) << outcome.output;
}

}  // namespace
}  // namespace weir_test
