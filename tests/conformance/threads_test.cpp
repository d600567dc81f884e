// Several host threads at once: into one stream, through events, in synchronisations, making and destroying streams.
// Rules without a counterpart: R207 (a synchronous copy holds no lock here: see the copies' tests), R208 (no queue
// fills up).
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "support/any_device.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

/// Runs `function(thread)` on `count` threads and waits for them.
template <class F>
void on_threads(int count, F&& function) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back([&function, t] { function(t); });
  for (std::thread& thread : threads) thread.join();
}

/// Counts kernels that find another one at work.
struct Alone {
  WEIR_KERNEL void operator()(std::size_t, weir::View<int> at_work, int* not_alone) const {
    if (weir::atomic_add(at_work(0), 1) != 0) add_to_word(not_alone, 1);
    for (int i = 0; i < 100; ++i) weir::atomic_add(at_work(0), 0);
    weir::atomic_add(at_work(0), -1);
  }
};

class Threads : public AnyDevice {};
ON_EVERY_DEVICE(Threads);

//  s: [t0 k0][t1 k0][t0 k1] ...      any mixture, each launch once, in order for each thread
TEST_P(Threads, R205_several_threads_launch_into_one_stream) {
  constexpr int threads = 4, launches = 2000;
  Log log(threads * launches);
  weir::Stream s(device());
  on_threads(threads, [&](int t) {
    for (int k = 0; k < launches; ++k) log.note(s, t * launches + k);
  });
  s.synchronize();
  const std::vector<int> order = log.values();
  ASSERT_EQ(order.size(), static_cast<std::size_t>(threads * launches));
  std::vector<int> next(threads, 0);
  for (const int entry : order) {
    const int t = entry / launches;
    ASSERT_EQ(entry % launches, next[static_cast<std::size_t>(t)]++) << "thread " << t;
  }
}

//  legacy:   [alone]       [alone]              by thread 1
//  blocking:        [alone]       [alone] ...   by thread 2: of any two, one is submitted first
TEST_P(Threads, R18_R205_the_legacy_stream_and_another_are_never_at_work_at_once) {
  weir::Stream blocking(device());
  auto at_work = weir::zeros<int>(blocking, 1);
  blocking.synchronize();
  const Marker not_alone;
  std::atomic<int> arrived[2] = {};
  std::atomic<bool> enough{false};  // where others use the cores, each turn waits for the scheduler
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  on_threads(2, [&](int t) {
    const weir::StreamRef stream = t == 0 ? weir::legacy_stream(device()) : weir::StreamRef(blocking);
    for (int k = 1; k <= 15000 && !enough; ++k) {
      arrived[t] = k;
      for (int tries = 0; arrived[1 - t] < k && !enough; ++tries) {
        if (tries > 1000) std::this_thread::yield();
      }
      if (std::chrono::steady_clock::now() > end) enough = true;
      weir::launch(stream, 1, Alone{}, weir::inout(at_work), not_alone.word());
    }
  });
  weir::legacy_stream(device()).synchronize();
  EXPECT_EQ(not_alone.value(), 0);
}

//  a: [hold ......]      thread 1 waits for a; this thread launches, asks and waits elsewhere
TEST_P(Threads, R206_a_thread_that_waits_holds_up_no_other) {
  Gate gate;
  Marker marker;
  weir::Stream a(device()), b(device());
  gate.hold(a);
  std::thread waiting([&] { a.synchronize(); });
  EXPECT_TRUE(eventually([&] { return gate.begun() == 1; }));
  EXPECT_TRUE(returns_while_held(gate, [&] {
    mark(b, marker);
    EXPECT_FALSE(a.done());
    const auto x = weir::zeros<int>(b, 1000);
    const weir::Event e = b.record();
    e.synchronize();
    b.synchronize();
  }));
  EXPECT_EQ(marker.value(), 1);
  gate.open();
  waiting.join();
}

//  s: [hold ......][mark]      four threads wait for it, all return after it
TEST_P(Threads, R7_several_threads_wait_for_one_stream) {
  Gate gate;
  Marker marker;
  std::atomic<int> returned{0};
  std::atomic<int> early{0};
  weir::Stream s(device());
  gate.hold(s);
  mark(s, marker);
  std::vector<std::thread> waiting;
  for (int t = 0; t < 4; ++t) {
    waiting.emplace_back([&] {
      s.synchronize();
      if (marker.value() != 1) ++early;
      ++returned;
    });
  }
  EXPECT_TRUE(stays(device(), [&] { return returned == 0; }));
  gate.open();
  for (std::thread& thread : waiting) thread.join();
  EXPECT_EQ(early, 0);
}

TEST_P(Threads, every_thread_waits_for_its_own_launches) {
  std::atomic<int> wrong{0};
  weir::Stream s(device());
  on_threads(4, [&](int) {
    Marker mine;
    for (int k = 1; k <= 300; ++k) {
      mark(s, mine, k);
      s.synchronize();
      if (mine.value() != k) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

//  one event, recorded by one thread in turn, waited for and asked by others
TEST_P(Threads, an_event_is_recorded_and_waited_for_by_many_threads) {
  std::atomic<bool> ended{false};
  Marker count;
  weir::Event event(device());
  weir::TimedEvent timed(device());
  std::thread recording([&] {
    weir::Stream s(device());
    for (int k = 0; k < 1000; ++k) {
      count_up(s, count);
      s.record(event);
      s.record(timed);
    }
    s.synchronize();
    ended = true;
  });
  on_threads(3, [&](int t) {
    weir::Stream s(device());
    while (!ended) {
      if (t == 0) s.wait(event);
      if (t == 1) event.synchronize();
      if (t == 2) (void)(event.done() && timed.done());
      if (t == 0) s.synchronize();
    }
  });
  recording.join();
  EXPECT_EQ(count.value(), 1000);
  EXPECT_TRUE(event.done());
}

TEST_P(Threads, streams_and_events_are_made_and_destroyed_by_many_threads) {
  Marker count;
  on_threads(4, [&](int t) {
    for (int k = 0; k < 200; ++k) {
      weir::Stream s(device(), {.priority = -t, .blocking = k % 2 == 0});
      weir::Stream other(device());
      count_up(s, count);
      other.wait(s.record());
      count_up(other, count);
    }
  });
  device().synchronize();
  EXPECT_EQ(count.value(), 1600);
}

//  legacy and blocking streams, hammered by four threads: no deadlock, every launch once
TEST_P(Threads, R23_the_legacy_barrier_holds_under_many_threads) {
  Marker count;
  on_threads(4, [&](int) {
    weir::Stream s(device());
    for (int k = 0; k < 200; ++k) {
      count_up(s, count);
      count_up(weir::legacy_stream(device()), count);
      count_up(weir::per_thread_stream(device()), count);
      if (k % 50 == 0) weir::legacy_stream(device()).synchronize();
    }
  });
  device().synchronize();
  EXPECT_EQ(count.value(), 2400);
}

struct Exchange {
  WEIR_KERNEL void operator()(std::size_t, int* value, int from, int to, int* wrong) const {
    if (load_word(value) != from) add_to_word(wrong, 1);
    store_word(value, to);
  }
};

//  s_t: [x: k -> k+1]   legacy: [x: k+1 -> k+2]   a thread alternates between its own stream and the legacy one, while
//  another thread does the same with its own value
TEST_P(Threads, R18_R19_each_threads_alternation_with_the_legacy_stream_is_ordered) {
  Marker wrong;
  on_threads(3, [&](int) {
    Marker value;
    weir::Stream s(device());
    for (int k = 0; k < 300; k += 2) {
      weir::launch(s, 1, Exchange{}, value.word(), k, k + 1, wrong.word());
      weir::launch(weir::legacy_stream(device()), 1, Exchange{}, value.word(), k + 1, k + 2, wrong.word());
    }
    weir::legacy_stream(device()).synchronize();
    if (value.value() != 300) wrong.set(1000);
  });
  EXPECT_EQ(wrong.value(), 0);
}

//  threads come and go, each with work in its current and its per-thread stream
TEST_P(Threads, threads_end_with_work_pending) {
  Gate gate;
  Marker count;
  weir::Stream held(device());
  gate.hold(held);
  const weir::Event e = held.record();
  // Held streams of a GPU share its work queues, and hold up others behind them (R182).
  const int rounds = on("cpu") ? 20 : 1;
  const int threads = on("cpu") ? 4 : 2;
  for (int round = 0; round < rounds; ++round) {
    on_threads(threads, [&](int) {
      const weir::ScopedDevice scope(device());
      const weir::StreamRef mine = weir::per_thread_stream(device());
      mine.wait(e);
      count_up(mine, count);
      weir::Stream s(device());
      weir::set_stream(s);
      weir::wait_event(e);
      count_up(weir::get_stream(device()), count);
    });
  }
  EXPECT_TRUE(stays(device(), [&] { return count.value() == 0; }));
  gate.open();
  device().synchronize();
  EXPECT_EQ(count.value(), rounds * threads * 2);
}

TEST_P(Threads, device_synchronise_by_one_thread_while_others_launch) {
  std::atomic<bool> ended{false};
  Marker count;
  std::thread synchronising([&] {
    while (!ended) device().synchronize();
  });
  on_threads(3, [&](int) {
    weir::Stream s(device());
    for (int k = 0; k < 500; ++k) count_up(s, count);
  });
  ended = true;
  synchronising.join();
  device().synchronize();
  EXPECT_EQ(count.value(), 1500);
}

}  // namespace
}  // namespace weir_test
