// A pool grows once threads can be started again, though its monitor could not be when it was first needed.
#include "backends/cpu/workers/thread_start.hpp"
#include "support/child.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

WEIR_SCENE(the_monitor_cannot_be_started_at_first) {
  weir::cpu::refuse_threads(true);
  const weir::Device cpu = weir::device("cpu");
  Marker count;
  weir::GraphBuilder builder(cpu);
  for (int i = 0; i < 4; ++i) {
    builder.host_call([word = count.word()] { add_to_word(word, 1); });
  }
  const weir::Graph graph = builder.build();
  const weir::Stream stream(cpu);
  graph.launch(stream);  // its nodes are offered to workers by way of the monitor
  stream.synchronize();
  insist(count.value() == 4, "the graph ran");
  weir::cpu::refuse_threads(false);
  Gate gate;
  std::vector<weir::Stream> held;
  const int cores = cpu.properties().multiprocessors;
  for (int i = 0; i <= cores; ++i) gate.hold(held.emplace_back(cpu, weir::StreamOptions{.blocking = false}));
  insist(eventually([&] { return gate.begun() == cores + 1; }), "held kernels do not hold up another stream");
}

TEST(NoThreads, a_pool_grows_once_threads_can_be_started_again) {
  const Outcome outcome = play("the_monitor_cannot_be_started_at_first");
  EXPECT_TRUE(ended_well(outcome)) << outcome.output;
}

}  // namespace
}  // namespace weir_test
