// The kernels of gates, markers and logs, and the questions whether a call waits.
#include "support/gate.hpp"

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

#include <weir/sim.hpp>

namespace weir_test {

namespace {

struct HoldUntilOpen {
  WEIR_KERNEL void operator()(std::size_t, int* opened, int* begun, int* given_up) const {
    add_to_word(begun, 1);
    if (!wait_for_word(opened)) store_word(given_up, 1);
  }
};
struct CountUp {
  WEIR_KERNEL void operator()(std::size_t, int* count) const { add_to_word(count, 1); }
};
struct AppendToLog {
  WEIR_KERNEL void operator()(std::size_t, int* count, int* entries, int capacity, int value) const {
    const int place = add_to_word(count, 1);
    if (place < capacity) store_word(entries + place, value);
  }
};

/// Where commands run in the calls that submit them, nothing can be held: the test is over, and says so.
void need_work_beside_the_host(weir::StreamRef stream) {
  const weir::DeviceProperties& properties = stream.device().properties();
  if (properties.concurrent_kernels || properties.async_engine_count > 0) return;
  constexpr const char* why = "it holds a stream, and this device runs its commands inline";
  [&] { GTEST_SKIP() << why; }();
  throw testing::AssertionException({testing::TestPartResult::kSkip, __FILE__, __LINE__, why});  // is no failure
}

}  // namespace

Gate::~Gate() {
  open();
  EXPECT_EQ(load_word(words_ + 2), 0) << "a held kernel waited 20 s for its gate and gave up";
}

void Gate::hold(weir::StreamRef stream, weir::SourceLocation where) {
  need_work_beside_the_host(stream);
  // The clock of simulated devices does not know how long a gate stays closed.
  if (stream.device().backend() == "sim") weir::sim::set_cost("hold", {.ns = 6e6});
  weir::launch(weir::StreamArg(stream, where), weir::Extent{.size = 1, .name = "hold"}, HoldUntilOpen{}, words_,
               words_ + 1, words_ + 2);
}

void Gate::hold_by_host_call(weir::StreamRef stream, weir::SourceLocation where) {
  need_work_beside_the_host(stream);
  weir::host_call(weir::StreamArg(stream, where), [words = words_] {
    add_to_word(words + 1, 1);
    if (!wait_for_word(words)) store_word(words + 2, 1);
  });
}

void mark(weir::StreamRef stream, const Marker& marker, int value, std::size_t i, weir::SourceLocation where) {
  weir::launch(weir::StreamArg(stream, where), weir::Extent{.size = 1, .name = "mark"}, WriteMark{}, marker.word(i),
               value);
}

void count_up(weir::StreamRef stream, const Marker& marker, std::size_t elements, weir::SourceLocation where) {
  weir::launch(weir::StreamArg(stream, where), weir::Extent{.size = elements, .name = "count up"}, CountUp{},
               marker.word());
}

Log::Log(int capacity) : capacity_(capacity), words_(make_words(static_cast<std::size_t>(capacity) + 1)) {}

void Log::note(weir::StreamRef stream, int value, weir::SourceLocation where) const {
  weir::launch(weir::StreamArg(stream, where), weir::Extent{.size = 1, .name = "note"}, AppendToLog{}, words_,
               words_ + 1, capacity_, value);
}

void Log::add(int value) const { AppendToLog{}(0, words_, words_ + 1, capacity_, value); }

std::vector<int> Log::values() const {
  std::vector<int> all;
  for (int i = 0; i < size() && i < capacity_; ++i) all.push_back(load_word(words_ + 1 + i));
  return all;
}

bool eventually(FunctionRef<bool> predicate) {
  Limit limit(liveness_limit);
  for (int turn = 0; !predicate(); ++turn) {
    if (limit.is_over()) return predicate();
    if (turn < 100) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  return true;
}

testing::AssertionResult stays(weir::Device device, FunctionRef<bool> predicate, int rounds) {
  const weir::PriorityRange priorities = device.properties().stream_priorities;
  weir::Stream probe(device, {.priority = device.backend() == "cpu" ? priorities.least : priorities.greatest,
                              .blocking = false,
                              .name = "probe"});
  Marker trips;
  for (int round = 1; round <= rounds; ++round) {
    if (!predicate()) return testing::AssertionFailure() << "it changed before round trip " << round;
    mark(probe, trips, round);
    if (!eventually([&] { return trips.value() == round; })) {
      return testing::AssertionFailure() << "an independent stream did not run";
    }
  }
  if (!predicate()) return testing::AssertionFailure() << "it changed in the meantime";
  return testing::AssertionSuccess();
}

testing::AssertionResult returns_while_held(Gate& gate, FunctionRef<void> call) {
  if (gate.is_open()) return testing::AssertionFailure() << "the gate was open before the call";
  {
    const Alarm alarm(liveness_limit, [&gate] { gate.open(); });
    call();
  }
  if (gate.is_open()) return testing::AssertionFailure() << "the call did not return until the gate was opened";
  return testing::AssertionSuccess();
}

testing::AssertionResult blocks_until_open(weir::Device device, Gate& gate, FunctionRef<void> call) {
  if (gate.is_open()) return testing::AssertionFailure() << "the gate was open before the call";
  std::atomic<bool> entered{false};
  std::atomic<bool> returned{false};
  std::exception_ptr thrown;
  std::thread caller([&] {
    entered = true;
    try {
      call();
    } catch (...) {
      thrown = std::current_exception();
    }
    returned = true;
  });
  const bool started = eventually([&] { return entered.load(); });
  testing::AssertionResult held = stays(device, [&] { return !returned.load(); });
  gate.open();
  const bool ended = eventually([&] { return returned.load(); });
  caller.join();  // a call that never returns meets the watchdog here
  if (thrown) std::rethrow_exception(thrown);
  if (!held) return testing::AssertionFailure() << "the call did not wait for the gate: " << held.message();
  if (!started || !ended) return testing::AssertionFailure() << "the call returned late after the gate was opened";
  return held;
}

}  // namespace weir_test
