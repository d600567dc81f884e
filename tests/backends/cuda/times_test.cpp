// When observed commands ran: kernels and host functions note it themselves, so that observing puts next to nothing into a
// stream, and changes neither what fits there nor who waits.
#include <gtest/gtest.h>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <weir/observer.hpp>
#include <weir/trace.hpp>
#include <weir/weir.hpp>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/streams/device_clock.hpp"
#include "backends/cuda/times.hpp"
#include "backends/fake_cuda/fake_cuda.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(TimesOfKernels, put_no_events_around_each_into_the_stream_and_go_through_several_batches) {
  constexpr std::size_t held_launches = 900, launches = held_launches + 2'600;
  const weir::Stream s = started_stream();
  Times times;
  times.of(s);
  {
    const fake_cuda::Pause held(0);  // as many as there is room for (R3)
    const std::uint64_t before = events_recorded_here();
    for (std::size_t i = 0; i < held_launches; ++i) weir::launch(s, 1, Nothing{});
    const std::uint64_t after = events_recorded_here();
    EXPECT_LE(after - before, 10u);  // of the library's own
  }
  for (std::size_t i = held_launches; i < launches; ++i) weir::launch(s, 1, Nothing{});
  s.synchronize();
  ASSERT_TRUE(times.has(launches));
  const std::vector<weir::Span> spans = times.all();
  EXPECT_EQ(spans.size(), launches);
  for (std::size_t i = 0; i < spans.size(); ++i) EXPECT_LE(spans[i].begin, spans[i].end) << i;
  for (std::size_t i = 0; i < std::min(held_launches, spans.size()); ++i) {
    EXPECT_EQ(spans[i].source, Source::kernel) << i;
    EXPECT_LT(spans[i].begin, spans[i].end) << i;
  }
}

/// Takes a millisecond for each time that it is told.
class Slow final : public weir::Observer {
 public:
  void ran(weir::CommandId, weir::StreamId, weir::Span) override {
    const auto until = std::chrono::steady_clock::now() + milliseconds(1);
    while (std::chrono::steady_clock::now() < until) {
    }
    ++told;
  }
  std::atomic<int> told{0};
};

TEST(TimesOfKernels, are_told_to_a_slow_observer_before_it_is_detached) {
  constexpr int launches = 1500;
  const weir::Stream s = started_stream();
  Slow slow;
  weir::attach(slow, weir::Watch::times);
  for (int i = 0; i < launches; ++i) weir::launch(s, 1, Nothing{});
  s.synchronize();
  weir::detach(slow);
  EXPECT_EQ(slow.told, launches);
}

TEST(TimesOfKernels, are_on_the_hosts_clock_within_their_error) {
  const weir::Stream s = started_stream();
  Times times;
  times.of(s);
  for (int i = 0; i < 20; ++i) {
    const auto before = std::chrono::steady_clock::now();
    weir::launch(s, 1, Nothing{});
    s.synchronize();
    const auto after = std::chrono::steady_clock::now();
    const auto count = static_cast<std::size_t>(i) + 1;
    ASSERT_TRUE(times.has(count));
    const weir::Span span = times.all().back();
    EXPECT_GE(span.begin, before);
    EXPECT_LE(span.end - span.error, after);
  }
}

TEST(TimesOfKernels, have_their_error_in_timelines) {
  const weir::Stream s = started_stream();
  weir::trace::Session session;
  for (int i = 0; i < 20; ++i) {
    weir::launch(s, 1, Nothing{});
    s.synchronize();
  }
  const std::string clock = session.stop().clock;
  const std::string words = "put on that clock within ";
  const std::size_t at = clock.find(words);
  ASSERT_NE(at, std::string::npos) << clock;
  EXPECT_GT(std::stoi(clock.substr(at + words.size())), 0) << clock;
}

TEST(TimesOfKernels, are_taken_by_events_where_too_many_are_on_their_way) {
  weir::Stream s(gpu());
  weir::launch(s, 1, Nothing{});
  s.synchronize();
  Times times;
  std::vector<weir::Stream> streams;
  {
    const fake_cuda::Pause held(0);
    for (int i = 0; i < 300; ++i) {  // each has a block of its own
      streams.emplace_back(gpu());
      weir::launch(streams.back(), 1, Nothing{});
    }
    times.of(streams.back());
  }
  streams.back().synchronize();
  ASSERT_TRUE(times.has(1));
  EXPECT_EQ(times.all().front().source, Source::events);
  weir::synchronize();
  // Their blocks come back once they were told.
  weir::Stream s_again(gpu());
  times.of(s_again);
  EXPECT_TRUE(eventually([&] {
    const std::size_t count = times.all().size();
    weir::launch(s_again, 1, Nothing{});
    s_again.synchronize();
    return times.has(count + 1) && times.all().back().source == Source::kernel;
  }));
}

/// How many events it puts into the stream.
std::uint64_t events_of_a_replay(const weir::Graph& graph, const weir::Stream& s) {
  const std::uint64_t before = events_recorded_here();
  {
    const fake_cuda::Pause held(0);
    graph.launch(s);
  }
  const std::uint64_t after = events_recorded_here();
  s.synchronize();
  return after - before;
}

TEST(TimesOfGraphs, of_kernels_alone_are_those_of_their_kernels) {
  weir::GraphBuilder builder(gpu());
  weir::Node last = builder.launch(1, Nothing{});
  for (int i = 0; i < 4; ++i) {
    const weir::Node next = builder.launch(1, Nothing{});
    builder.depends(next, last);
    last = next;
  }
  weir::Graph graph = builder.build();
  const weir::Stream s = started_stream();
  Times times;
  times.of(s);
  EXPECT_EQ(events_of_a_replay(graph, s), 1u);  // behind its end
  ASSERT_TRUE(times.has(1));
  ASSERT_EQ(times.nodes().size(), 5u);
  EXPECT_EQ(times.all().front().source, Source::kernel);
  EXPECT_EQ(times.all().front().begin, times.nodes().front().begin);
  EXPECT_EQ(times.all().front().end, times.nodes().back().end);
}

// The second device's clock is asked for the first time here, and does not answer: only the kernels say where it stands.
TEST(TimesOfGraphs, are_by_one_clock_whatever_it_learns_from_their_kernels) {
  const weir::Device device = weir::devices("cuda").at(1);
  weir::GraphBuilder builder(device);
  weir::Node last = builder.launch(1, Nothing{});
  for (int i = 0; i < 4; ++i) {
    const weir::Node next = builder.launch(1, Nothing{});
    builder.depends(next, last);
    last = next;
  }
  const weir::Graph graph = builder.build();
  const weir::Stream s(device);
  weir::launch(s, 1, Nothing{});
  s.synchronize();
  Times times;
  times.of(s);
  const auto before = std::chrono::steady_clock::now();
  {
    const fake_cuda::Pause held(1);
    graph.launch(s);
    fake_cuda::fail_call("cudaLaunchKernel", 1, cudaErrorMemoryAllocation);
  }
  s.synchronize();
  ASSERT_TRUE(times.has(1));
  fake_cuda::fail_nothing();
  const auto after = std::chrono::steady_clock::now();
  const std::vector<weir::Span> nodes = times.nodes();
  ASSERT_EQ(nodes.size(), 5u);
  EXPECT_EQ(times.all().front().begin, nodes.front().begin);
  EXPECT_EQ(times.all().front().end, nodes.back().end);
  for (const weir::Span& node : nodes) {
    EXPECT_GE(node.begin, before);
    EXPECT_LE(node.end - node.error, after);
  }
}

TEST(TimesOfGraphs, with_more_than_kernels_are_by_events) {
  weir::Array<int> x = weir::empty<int>(gpu(), 16);
  weir::GraphBuilder builder(gpu());
  const weir::Node fill = builder.fill(x, 1);
  builder.depends(builder.launch(1, Nothing{}), fill);
  weir::Graph graph = builder.build();
  const weir::Stream s = started_stream();
  Times times;
  times.of(s);
  EXPECT_EQ(events_of_a_replay(graph, s), 3u);
  ASSERT_TRUE(times.has(1));
  EXPECT_EQ(times.all().front().source, Source::events);
  ASSERT_EQ(times.nodes().size(), 1u);
  EXPECT_GE(times.nodes().front().begin, times.all().front().begin);
}

TEST(TimesOfGraphs, in_which_a_kernel_is_switched_on_later_are_by_events) {
  weir::GraphBuilder builder(gpu());
  const weir::Node first = builder.launch(1, Nothing{});
  const weir::Node second = builder.launch(1, Nothing{});
  builder.depends(second, first);
  weir::Graph graph = builder.build();
  graph.disable(second);
  const weir::Stream s = started_stream();
  Times times;
  times.of(s);
  EXPECT_EQ(events_of_a_replay(graph, s), 1u);
  graph.enable(second);
  EXPECT_EQ(events_of_a_replay(graph, s), 3u);
}

TEST(TimesOfKernels, behind_a_host_function_that_throws_are_none) {
  const weir::Stream s = started_stream();
  Times times;
  times.of(s);
  {
    const fake_cuda::Pause held(0);
    weir::host_call(s, [] { throw std::runtime_error("the pump failed"); });
    weir::launch(s, 1, Nothing{});
  }
  EXPECT_THROW(s.synchronize(), weir::Error);
  ASSERT_TRUE(times.has(2));
  EXPECT_EQ(times.all()[1].begin, times.all()[1].end);
}

struct NothingInBlocks {
  WEIR_KERNEL void operator()(weir::Block&) const {}
};

/// The fake driver looks whether what a kernel is told of itself is right.
TEST(TimesOfKernels, behind_a_host_function_that_may_fail_heed_it) {
  const weir::Stream s = started_stream();
  Times times;
  times.of(s);
  {
    const fake_cuda::Pause held(0);
    weir::host_call(s, [] {});
    weir::launch(s, 1, Nothing{});
  }
  s.synchronize();
  ASSERT_TRUE(times.has(2));
  EXPECT_EQ(times.all().back().source, Source::kernel);
}

TEST(TimesOfKernels, that_are_refused_are_not_told) {
  const weir::Stream s = started_stream();
  Times times;
  times.of(s);
  EXPECT_THROW(weir::launch_blocks(s, {.blocks = 1, .threads = 32, .shared_bytes = 1 << 30}, NothingInBlocks{}),
               weir::Error);
  weir::launch(s, 1, Nothing{});
  s.synchronize();
  ASSERT_TRUE(times.has(1));
  EXPECT_EQ(times.all().front().source, Source::kernel);
}

/// Waits on the host's clock, as a thread does that is kept from its core.
void lose(std::chrono::nanoseconds time) {
  const auto late = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < late) {
  }
}

TEST(DeviceClocks, are_asked_again_where_an_answer_was_not_close) {
  started_stream();
  weir::cuda::CudaDevice& device = weir::cuda::CudaDevice::at(0);
  // Of an answer that takes much longer, the device is full.
  const auto times_asked = [&] {
    weir::cuda::DeviceClock clock;
    std::optional<fake_cuda::Pause> held(std::in_place, 0);
    const std::uint64_t before = fake_cuda::calls_here("cudaEventRecord");
    static_cast<void>(clock.ask(device));
    lose(milliseconds(2));
    held.reset();
    EXPECT_TRUE(eventually([&] { return clock.ask(device); }));
    return fake_cuda::calls_here("cudaEventRecord") - before;
  };
  EXPECT_TRUE(eventually([&] { return times_asked() >= 2; }));
}

TEST(DeviceClocks, are_asked_once_where_the_device_is_full_for_long) {
  started_stream();
  weir::cuda::CudaDevice& device = weir::cuda::CudaDevice::at(0);
  weir::cuda::DeviceClock clock;
  std::optional<fake_cuda::Pause> held(std::in_place, 0);
  const std::uint64_t before = fake_cuda::calls_here("cudaEventRecord");
  static_cast<void>(clock.ask(device));  // false, where this thread does not lose its core for long meanwhile
  lose(milliseconds(60));
  EXPECT_TRUE(clock.ask(device));
  held.reset();
  EXPECT_TRUE(eventually([&] { return clock.ask(device); }));
  EXPECT_EQ(fake_cuda::calls_here("cudaEventRecord") - before, 1u);
}

// The thread that asks is kept from its core between the kernel and the event.
//  the device begins its answer late, and is done with it soon: where its clock stands is known little better than to that delay
TEST(DeviceClocks, learn_from_copies_that_begin_soon_after_their_call) {
  started_stream();
  weir::cuda::CudaDevice& device = weir::cuda::CudaDevice::at(0);
  cudaStream_t stream = nullptr;
  std::array<cudaEvent_t, 2> events{};
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  for (cudaEvent_t& event : events) EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDefault), cudaSuccess);
  for (int round = 0; round < 20;) {
    weir::cuda::DeviceClock clock;
    const auto asked = std::chrono::steady_clock::now();
    std::optional<fake_cuda::Pause> held(std::in_place, 0);
    static_cast<void>(clock.ask(device));
    held.reset();
    EXPECT_TRUE(eventually([&] { return clock.ask(device); }));
    // On a busy machine: it has asked for so long that it takes an answer that is not close.
    if (std::chrono::steady_clock::now() - asked > milliseconds(50)) continue;
    ++round;
    const auto submitted = std::chrono::steady_clock::now();
    for (cudaEvent_t event : events) EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
    EXPECT_EQ(cudaEventSynchronize(events[1]), cudaSuccess);
    const weir::Span span = clock.between(submitted, std::chrono::steady_clock::now(), events[0], events[1]);
    EXPECT_GE(span.begin + microseconds(5), submitted) << round;
  }
  for (cudaEvent_t event : events) EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST(DeviceClocks, whose_event_comes_late_say_nothing_wrong_of_other_commands) {
  started_stream();
  weir::cuda::DeviceClock clock;
  std::optional<fake_cuda::HoldCalls> held("cudaEventRecord");
  const std::uint64_t before = fake_cuda::calls("cudaEventRecord");
  weir::cuda::CudaDevice& device = weir::cuda::CudaDevice::at(0);
  std::thread asks([&] { static_cast<void>(clock.ask(device)); });
  EXPECT_TRUE(eventually([&] { return fake_cuda::calls("cudaEventRecord") > before; }));
  lose(milliseconds(60));
  held.reset();
  asks.join();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);  // the answer is there, and ask() looks for it
  EXPECT_TRUE(eventually([&] { return clock.ask(device); }));
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  EXPECT_EQ(cudaEventCreateWithFlags(&begin, cudaEventDefault), cudaSuccess);
  EXPECT_EQ(cudaEventCreateWithFlags(&end, cudaEventDefault), cudaSuccess);
  const auto submitted = std::chrono::steady_clock::now();
  EXPECT_EQ(cudaEventRecord(begin, stream), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
  const auto seen = std::chrono::steady_clock::now();
  const weir::Span span = clock.between(submitted, seen, begin, end);
  EXPECT_GE(span.end + span.error, submitted);
  EXPECT_LE(span.end - span.error, seen);
  const weir::detail::KernelTimes times{fake_cuda::device_timer(), fake_cuda::device_timer()};
  const weir::Span kernel = clock.of_kernel(times);
  EXPECT_GE(kernel.end + kernel.error, seen);
  EXPECT_LE(kernel.end - kernel.error, std::chrono::steady_clock::now());
  EXPECT_EQ(cudaEventDestroy(begin), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(end), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

using weir::cuda::ClockMapping;
using HostTime = std::chrono::steady_clock::time_point;

HostTime host(std::int64_t us) { return HostTime(microseconds(us)); }

TEST(ClockMappings, lie_between_what_was_submitted_and_what_was_seen) {
  using std::chrono::nanoseconds;
  const auto near = [](auto found, auto expected) {
    const nanoseconds off = found - expected;
    return off > nanoseconds(-10) && off < nanoseconds(10);  // bounds widen
  };
  ClockMapping mapping;  // the truth: the device's clock is 1,000 us behind
  mapping.ends_before(host(1'200), microseconds(100));
  EXPECT_EQ(mapping.host_time(microseconds(100)), host(1'200));
  mapping.begins_after(host(1'015), microseconds(20));
  EXPECT_TRUE(near(mapping.host_time(microseconds(20)), host(1'019)));
  EXPECT_TRUE(near(mapping.error(), microseconds(101)));
  mapping.ends_before(host(1'103), microseconds(101));
  EXPECT_TRUE(near(mapping.error(), microseconds(4)));
  EXPECT_TRUE(near(mapping.host_time(microseconds(101)), host(1'100)));
  mapping.begins_after(host(1'200), microseconds(201));
  EXPECT_TRUE(near(mapping.host_time(microseconds(300)), host(1'300) - nanoseconds(250)));
  mapping.ends_before(host(1'301), microseconds(301));
  EXPECT_TRUE(near(mapping.host_time(microseconds(300)), host(1'299) + nanoseconds(750)));
}

//  a kernel that begins soon after its call, and then none but those that wait for others before them
TEST(ClockMappings, move_little_where_nothing_close_is_known) {
  ClockMapping mapping;
  mapping.begins_after(host(0), microseconds(4));
  mapping.ends_before(host(30), microseconds(10));
  std::chrono::steady_clock::time_point before = mapping.host_time(microseconds(0));
  for (std::int64_t us = 1'000; us < 2'000'000; us += 1'000) {
    mapping.begins_after(host(us - 500), microseconds(us));
    mapping.ends_before(host(us + 400), microseconds(us + 100));
    const auto now = mapping.host_time(microseconds(0));
    ASSERT_LE(now - before, microseconds(1)) << us;
    ASSERT_GE(now - before, microseconds(-1)) << us;
    before = now;
  }
}

TEST(ClockMappings, follow_clocks_that_drift_apart) {
  ClockMapping mapping;
  for (std::int64_t us = 0; us < 100'000'000; us += 1'000) {
    const std::int64_t device = us - us / 20'000;  // 50 in a million
    mapping.begins_after(host(us), microseconds(device + 3));
    mapping.ends_before(host(us + 30), microseconds(device + 5));
    const auto error = mapping.host_time(microseconds(device + 3)) - host(us + 3);
    ASSERT_LE(error, microseconds(30)) << us;
    ASSERT_GE(error, microseconds(-30)) << us;
  }
}

}  // namespace
}  // namespace weir_test
