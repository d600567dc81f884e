// Captures and housekeeping: nothing calls the driver about a stream that is captured but the thread that captures it, and
// nothing voids the capture (docs/captures.md). The fake driver ends the process where the real one would crash.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <weir/weir.hpp>

#include "backends/fake_cuda/fake_cuda.hpp"
#include "support/gate.hpp"

namespace {

using weir_test::Gate;
using weir_test::Marker;

struct Add {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x, int value) const { x[i] += value; }
};

weir::Device gpu() { return weir::devices("cuda").at(0); }

template <class F>
void on_another_thread(F&& f) {
  std::thread thread(std::forward<F>(f));
  thread.join();
}

/// A capture on `stream` is open while `during` runs, and it is whole afterwards.
template <class F>
void capture_while(weir::StreamRef stream, weir::Array<int>& x, F&& during) {
  weir::Graph graph = weir::capture(stream, [&] {
    weir::launch(stream, x.size(), Add{}, weir::inout(x), 1);
    during();
    weir::launch(stream, x.size(), Add{}, weir::inout(x), 1);
  });
  stream.synchronize();
  const int before = x.to_host().at(0);
  graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(x.to_host().at(0), before + 2);
}

/// Each kind of work that a stream may have behind it when its capture begins.
class CapturesAndHousekeeping : public ::testing::TestWithParam<bool> {
 protected:
  bool held() const { return GetParam(); }
  void hold(weir::StreamRef s) {
    if (held()) gate.hold(s);
  }
  Gate gate;
  weir::Stream stream{gpu(), {.blocking = false, .name = "captured"}};
  weir::Array<int> x = weir::zeros<int>(stream, 16);
};

INSTANTIATE_TEST_SUITE_P(, CapturesAndHousekeeping, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "behind_held_work" : "behind_nothing"; });

TEST_P(CapturesAndHousekeeping, another_thread_drops_pinned_memory_that_the_stream_had_used) {
  auto pinned = std::make_unique<weir::Array<int>>(weir::empty<int>(weir::pinned, 16));
  hold(stream);
  weir::copy(stream, x, *pinned);
  weir::fill(stream, x, 0);
  const int* const data = pinned->data();
  capture_while(stream, x, [&] {
    on_another_thread([&] { pinned.reset(); });
    on_another_thread([&] {
      if (!held()) return;
      std::vector<weir::Array<int>> others;
      for (int i = 0; i < 8; ++i) {
        others.push_back(weir::empty<int>(weir::pinned, 16));
        EXPECT_NE(others.back().data(), data) << "used again while the copy of before the capture is pending";
      }
    });
    gate.open();
  });
}

TEST_P(CapturesAndHousekeeping, another_thread_drops_an_array_of_another_stream) {
  weir::Stream home(gpu());
  const std::size_t before = weir::default_pool(gpu()).statistics().used;
  auto y = std::make_unique<weir::Array<int>>(weir::zeros<int>(home, 1 << 20));
  stream.wait(home);
  hold(stream);
  weir::launch(stream, y->size(), Add{}, weir::inout(*y), 1);
  capture_while(stream, x, [&] {
    on_another_thread([&] { y.reset(); });
    gate.open();
  });
  gpu().synchronize();
  EXPECT_EQ(weir::default_pool(gpu()).statistics().used, before);
}

TEST_P(CapturesAndHousekeeping, trimming_gives_back_what_the_stream_freed) {
  const weir::PoolRef pool = weir::default_pool(gpu());
  gpu().synchronize();
  pool.trim();
  const std::size_t before = pool.statistics().reserved;
  { auto y = weir::zeros<int>(stream, 1 << 22); }
  hold(stream);
  capture_while(stream, x, [&] {
    on_another_thread([&] { pool.trim(); });
    gate.open();
  });
  gpu().synchronize();
  pool.trim();
  EXPECT_LE(pool.statistics().reserved, before);
}

TEST_P(CapturesAndHousekeeping, blocks_that_leave_the_cache_are_not_lost) {
  const weir::PoolRef pool = weir::default_pool(gpu());
  gpu().synchronize();
  pool.trim();
  const std::size_t before = pool.statistics().reserved;
  hold(stream);
  for (int round = 0; round < 3; ++round) {
    std::vector<weir::Array<int>> many;
    for (int i = 0; i < 40; ++i) many.push_back(weir::empty<int>(stream, 1 << 18));
    capture_while(stream, x, [&] {
      many.clear();
      gate.open();
    });
  }
  gpu().synchronize();
  pool.trim();
  EXPECT_LE(pool.statistics().reserved, before);
}

// Before memory is said to be out, what is kept and what was put off goes back: of the captured stream, too, were it allowed.
TEST_P(CapturesAndHousekeeping, another_thread_runs_out_of_memory_and_tries_again) {
  gpu().synchronize();
  weir::default_pool(gpu()).trim();  // no block of an earlier test serves
  { auto y = weir::zeros<int>(stream, 1 << 20); }
  auto pinned = std::make_unique<weir::Array<int>>(weir::empty<int>(weir::pinned, 16));
  hold(stream);
  weir::copy(stream, x, *pinned);
  weir::fill(stream, x, 0);
  capture_while(stream, x, [&] {
    on_another_thread([&] {
      pinned.reset();
      const weir::Stream other(gpu(), {.blocking = false});
      const std::uint64_t before = fake_cuda::calls("cudaMallocFromPoolAsync");
      fake_cuda::fail_call("cudaMallocFromPoolAsync", 1, cudaErrorMemoryAllocation);
      const auto z = weir::full(other, (1 << 23) + (1 << 21), 7);
      fake_cuda::fail_nothing();
      EXPECT_EQ(fake_cuda::calls("cudaMallocFromPoolAsync"), before + 2) << "it was not tried again";
      other.synchronize();
      EXPECT_EQ(z.slice(5, 6).to_host(other).at(0), 7);
    });
    gate.open();
  });
}

TEST_P(CapturesAndHousekeeping, unpinning_waits_for_what_was_before) {
  std::vector<int> host(16, 3);
  auto pin = std::make_unique<weir::ScopedPin>(host);
  hold(stream);
  weir::copy(stream, x, host);
  weir::fill(stream, x, 0);
  capture_while(stream, x, [&] {
    gate.open();
    on_another_thread([&] { pin.reset(); });
  });
}

TEST_P(CapturesAndHousekeeping, memory_that_the_legacy_stream_used_is_dropped_while_a_blocking_stream_captures) {
  weir::Stream blocking(gpu());
  const weir::StreamRef legacy = weir::legacy_stream(gpu());
  auto own = std::make_unique<weir::Array<int>>(weir::zeros<int>(legacy, 1 << 20));
  auto used = std::make_unique<weir::Array<int>>(weir::zeros<int>(stream, 1 << 20));
  auto pinned = std::make_unique<weir::Array<int>>(weir::empty<int>(weir::pinned, 16));
  legacy.wait(stream);
  hold(legacy);
  weir::launch(legacy, used->size(), Add{}, weir::inout(*used), 1);
  weir::copy(legacy, *pinned, used->slice(0, 16));
  auto y = weir::zeros<int>(blocking, 16);
  weir::Graph graph = weir::capture(blocking, [&] {
    weir::launch(blocking, y.size(), Add{}, weir::inout(y), 1);
    on_another_thread([&] {
      own.reset();
      // Where the legacy stream's work ends is known beside the capture: nothing is put off.
      const std::uint64_t frees = fake_cuda::returned_calls("cudaFreeAsync");
      used.reset();
      EXPECT_EQ(fake_cuda::returned_calls("cudaFreeAsync"), frees + 1);
      pinned.reset();
      weir::default_pool(gpu()).trim();
    });
    gate.open();
  });
  graph.launch(blocking);
  blocking.synchronize();
  EXPECT_EQ(y.to_host().at(3), 1);
}

TEST(Captures, of_the_library_are_not_disturbed_by_synchronisations_of_the_device) {
  weir::Stream stream(gpu());
  auto x = weir::zeros<int>(stream, 16);
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) gpu().synchronize();
  });
  for (int i = 0; i < 200; ++i) {
    weir::GraphBuilder builder(gpu());
    const auto first = builder.launch(x.size(), Add{}, weir::inout(x), 1);
    const auto second = builder.fill(x, i);
    builder.depends(second, first);
    weir::Graph built = builder.build();
    built.launch(stream);
    built.update_fill(second, x, i + 1);
    built.launch(stream);
  }
  over = true;
  other.join();
  stream.synchronize();
  EXPECT_EQ(x.to_host().at(0), 200);
}

TEST(Captures, of_the_library_beside_memory_of_streams_that_are_gone) {
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) {
      auto x = [&] {
        weir::Stream home(gpu(), {.blocking = false});
        weir::Stream user(gpu(), {.blocking = false});
        auto array = weir::zeros<int>(home, 64);
        user.wait(home);
        weir::launch(user, array.size(), Add{}, weir::inout(array), 1);
        return array;
      }();
    }
  });
  weir::Stream stream(gpu(), {.blocking = false});
  auto x = weir::zeros<int>(stream, 16);
  for (int i = 0; i < 300; ++i) {
    weir::GraphBuilder builder(gpu());
    builder.launch(x.size(), Add{}, weir::inout(x), 1);
    weir::Graph graph = builder.build();
    graph.launch(stream);
  }
  over = true;
  other.join();
  stream.synchronize();
  EXPECT_EQ(x.to_host().at(0), 300);
}

TEST(Places, a_queue_that_has_another_owner_is_waited_for_by_nobody) {
  auto pinned = std::make_unique<weir::Array<int>>(weir::empty<int>(weir::pinned, 1 << 16));
  const int* const data = pinned->data();
  {
    weir::Stream gone(gpu(), {.priority = -1, .blocking = false});
    auto x = weir::zeros<int>(gone, 1 << 16);
    weir::copy(gone, x, *pinned);
    gone.synchronize();
  }
  weir::Stream next(gpu(), {.priority = -1, .blocking = false});  // has the same queue
  Gate gate;
  gate.hold(next);
  pinned.reset();
  auto again = weir::empty<int>(weir::pinned, 1 << 16);
  EXPECT_EQ(again.data(), data);
  gate.open();
}

TEST(Events, that_take_over_from_a_captured_one_can_be_waited_for) {
  weir::Stream stream(gpu(), {.blocking = false});
  weir::Stream other(gpu(), {.blocking = false});
  auto x = weir::zeros<int>(stream, 16);
  stream.synchronize();
  {
    weir::Event fork(gpu());
    weir::Event join(gpu());
    const weir::Graph graph = weir::capture(stream, [&] {
      stream.record(fork);
      other.wait(fork);
      weir::launch(other, x.size(), Add{}, weir::inout(x), 1);
      other.record(join);
      stream.wait(join);
    });
  }
  std::vector<weir::Event> fresh;
  for (int i = 0; i < 600; ++i)
    fresh.emplace_back(gpu());  // more than are in stock: what a capture gave back is among them
  weir::Graph graph = weir::capture(stream, [&] {
    for (const weir::Event& event : fresh) weir::wait_external(stream, event);
    weir::launch(stream, x.size(), Add{}, weir::inout(x), 1);
  });
  for (const weir::Event& event : fresh) other.record(event);
  graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(x.to_host().at(0), 1);
}

TEST(Events, that_a_capture_let_go_of_are_used_by_other_threads_meanwhile) {
  weir::Stream stream(gpu(), {.blocking = false});
  weir::Stream other(gpu(), {.blocking = false});
  auto x = weir::zeros<int>(stream, 16);
  stream.synchronize();
  capture_while(stream, x, [&] {
    for (int i = 0; i < 4; ++i) other.wait(stream.record());
    on_another_thread([] {
      weir::Stream elsewhere(gpu(), {.blocking = false});
      std::vector<weir::Event> events;
      for (int i = 0; i < 8; ++i) events.push_back(elsewhere.record());
      for (const weir::Event& event : events) event.synchronize();
    });
    weir::launch(other, x.size(), Add{}, weir::inout(x), 0);
    stream.wait(other.record());
  });
}

TEST(Events, of_a_capture_are_recorded_by_another_thread_meanwhile) {
  weir::Stream stream(gpu(), {.blocking = false});
  weir::Stream other(gpu(), {.blocking = false});
  auto x = weir::zeros<int>(stream, 16);
  stream.synchronize();
  const weir::Event event(gpu());
  capture_while(stream, x, [&] {
    stream.record(event);
    on_another_thread([&] {
      other.record(event);
      event.synchronize();
    });
  });
  EXPECT_TRUE(event.done());
}

TEST(Events, that_take_times_are_recorded_in_built_graphs_and_in_captures) {
  weir::Stream stream(gpu(), {.blocking = false});
  weir::Stream other(gpu(), {.blocking = false});
  auto x = weir::zeros<int>(stream, 16);
  const weir::TimedEvent event(gpu());
  weir::GraphBuilder builder(gpu());
  builder.record(event);
  weir::Graph built = builder.build();
  stream.synchronize();
  for (int turn = 1; turn <= 2; ++turn) {
    weir::Graph graph = weir::capture(stream, [&] {
      stream.record(event);
      other.wait(event);
      weir::launch(other, x.size(), Add{}, weir::inout(x), 1);
      stream.wait(other.record());
    });
    graph.launch(stream);
    built.launch(stream);
    stream.synchronize();
    EXPECT_TRUE(event.done());
    EXPECT_EQ(x.to_host().at(0), turn);
  }
}

TEST(Memory, whose_last_owner_is_a_host_function_comes_back) {
  weir::Stream stream(gpu());
  const weir::PoolRef pool = weir::default_pool(gpu());
  gpu().synchronize();
  pool.trim();
  const std::size_t before = pool.statistics().reserved;
  for (int i = 0; i < 60; ++i) {
    auto shared = std::make_shared<weir::Array<int>>(weir::zeros<int>(stream, 1 << 18));
    weir::host_call(stream, [shared] {});
  }
  stream.synchronize();
  // The library's own thread frees what the driver's may not, and may be at it.
  EXPECT_TRUE(weir_test::eventually([&] {
    gpu().synchronize();
    pool.trim();
    return pool.statistics().used == 0 && pool.statistics().reserved <= before;
  }));
}

TEST(Graphs, replays_follow_one_whose_stream_captures_now) {
  weir::Stream first(gpu(), {.blocking = false});
  weir::Stream second(gpu(), {.blocking = false});
  auto x = weir::zeros<int>(first, 16);
  second.wait(first);
  weir::GraphBuilder builder(gpu());
  const auto node = builder.fill(x, 1);
  weir::Graph graph = builder.build();
  graph.launch(second);
  second.synchronize();
  Gate gate;
  gate.hold(first);
  graph.launch(first);
  graph.update_fill(node, x, 2);  // another instance, which the driver does not keep apart from the first
  const weir::Graph captured = weir::capture(first, [&] {
    const std::uint64_t waits = fake_cuda::calls("cudaStreamWaitEvent");
    graph.launch(second);
    EXPECT_EQ(fake_cuda::calls("cudaStreamWaitEvent"), waits + 1) << "both replays may run at once";
    weir::launch(first, x.size(), Add{}, weir::inout(x), 1);
  });
  EXPECT_FALSE(second.done());
  gate.open();
  second.synchronize();
  EXPECT_EQ(x.to_host().at(0), 2);
}

TEST(Captures, by_another_library_take_launches_and_refuse_what_they_would_lose) {
  cudaStream_t native = nullptr;
  weir::Stream home(gpu(), {.blocking = false});
  auto x = weir::zeros<int>(home, 16);
  auto dropped = std::make_unique<weir::Array<int>>(weir::zeros<int>(home, 1 << 20));
  auto own = weir::zeros<int>(home, 16);
  home.synchronize();
  ASSERT_EQ(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking), cudaSuccess);
  {
    weir::Stream wrapped = weir::wrap_stream(gpu(), native);
    weir::launch(wrapped, dropped->size(), Add{}, weir::inout(*dropped), 1);
    std::vector<int> host(16, 5);
    ASSERT_EQ(cudaStreamBeginCapture(native, cudaStreamCaptureModeRelaxed), cudaSuccess);
    weir::launch(wrapped, x.size(), Add{}, weir::inout(x), 1);
    const auto refused = [](auto&& call) {
      try {
        call();
        ADD_FAILURE() << "it was not refused";
      } catch (const weir::Error& error) {
        EXPECT_EQ(error.code(), weir::Errc::capture_unsupported) << error.what();
      }
    };
    refused([&] { weir::host_call(wrapped, [] {}); });
    refused([&] { weir::copy(wrapped, x, host); });
    refused([&] { weir::copy(wrapped, host, x); });
    refused([&] { static_cast<void>(weir::empty<int>(wrapped, 16)); });
    refused([&] { static_cast<void>(wrapped.done()); });
    dropped.reset();  // it is not known when what it was used for is over
    weir::default_pool(gpu()).trim();
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(native, &graph), cudaSuccess);
    ASSERT_NE(graph, nullptr);
    std::size_t nodes = 0;
    EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
    EXPECT_EQ(nodes, 1u);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    wrapped.synchronize();
  }
  EXPECT_EQ(cudaStreamDestroy(native), cudaSuccess);
  gpu().synchronize();
  weir::default_pool(gpu()).trim();
}

// A free may wait for room in a stream, and a capture ends under the core's lock of captures.
TEST(Captures, free_no_memory_that_was_put_off_when_they_end) {
  cudaStream_t native = nullptr;
  weir::Stream home(gpu(), {.blocking = false});
  auto x = weir::zeros<int>(home, 16);
  auto dropped = std::make_unique<weir::Array<int>>(weir::zeros<int>(home, 1 << 20));
  home.synchronize();
  ASSERT_EQ(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking), cudaSuccess);
  {
    weir::Stream wrapped = weir::wrap_stream(gpu(), native);
    weir::launch(wrapped, dropped->size(), Add{}, weir::inout(*dropped), 1);
    ASSERT_EQ(cudaStreamBeginCapture(native, cudaStreamCaptureModeRelaxed), cudaSuccess);
    dropped.reset();  // it is not known when what it was used for is over
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(native, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    const std::uint64_t frees = fake_cuda::returned_calls("cudaFreeAsync");
    auto held = std::make_unique<fake_cuda::HoldCalls>("cudaFreeAsync");
    std::atomic<bool> ended{false};
    std::thread capturing([&] {
      const weir::Graph captured = weir::capture(home, [&] { weir::launch(home, x.size(), Add{}, weir::inout(x), 1); });
      ended = true;
    });
    EXPECT_TRUE(weir_test::eventually([&] { return ended.load(); }));
    held.reset();
    capturing.join();
    EXPECT_TRUE(weir_test::eventually([&] { return fake_cuda::returned_calls("cudaFreeAsync") > frees; }));
    wrapped.synchronize();
  }
  EXPECT_EQ(cudaStreamDestroy(native), cudaSuccess);
}

}  // namespace
