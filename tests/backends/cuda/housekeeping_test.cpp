// What the backend does beside the streams: nothing of it waits with a lock held, and little is lost when the driver refuses.
#include <gtest/gtest.h>

#include <cuda_runtime_api.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <weir/kernel_info.hpp>
#include <weir/weir.hpp>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/memory/cuda_sharing.hpp"
#include "backends/cuda/streams/failures.hpp"
#include "backends/cuda/streams/poller.hpp"
#include "backends/cuda/streams/stocks.hpp"
#include "backends/cuda/streams/threads.hpp"
#include "backends/fake_cuda/fake_cuda.hpp"
#include "support/child.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

weir::Device gpu() { return weir::devices("cuda").at(0); }

TEST(PinnedHousekeeping, free_blocks_of_other_sizes_are_given_back_before_memory_is_out) {
  weir::Stream s(gpu());
  s.synchronize();
  { const auto block = weir::empty<char>(weir::pinned, 3 << 20); }
  const std::uint64_t before = fake_cuda::calls("cudaFreeHost");
  fake_cuda::fail_call("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
  EXPECT_NO_THROW(weir::empty<char>(weir::pinned, 5 << 20));
  EXPECT_GT(fake_cuda::calls("cudaFreeHost"), before);
  fake_cuda::fail_nothing();
}

TEST(PinnedHousekeeping, blocks_that_a_stream_uses_come_back_when_it_is_through) {
  weir::Stream s(gpu());
  std::vector<int> host(50'000, 3);
  auto x = weir::zeros<int>(s, host.size());
  const auto copies = [&] {
    for (int i = 0; i < 30; ++i) weir::copy(s, x, host);
    s.synchronize();
  };
  copies();
  EXPECT_TRUE(eventually([&] {
    const std::size_t before = fake_cuda::outstanding().pinned_blocks;
    copies();
    return fake_cuda::outstanding().pinned_blocks == before;
  }));
}

TEST(DevicesHousekeeping, one_that_is_unavailable_for_a_moment_leaves_the_process_its_devices) {
  weir::Stream s(gpu());
  s.synchronize();
  fake_cuda::fail_call("cudaHostAlloc", 1, cudaErrorDevicesUnavailable);
  EXPECT_TRUE(fails_with(weir::Errc::device_failed, [] { weir::empty<char>(weir::pinned, 7 << 20); }));
  fake_cuda::fail_nothing();
  EXPECT_NO_THROW(weir::Stream(gpu()).synchronize());
  Marker marker;
  mark(s, marker);
  s.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

/// What was posted to the housekeeping thread is done.
void wait_for_housekeeping() {
  std::promise<void> done;
  auto task = weir::cuda::make_task([&] { done.set_value(); });
  weir::cuda::TaskThread::housekeeper().post(task);
  done.get_future().wait();
}

/// Whether work of another thread ends although calls of this name do not return.
bool ends_without(const char* call, const std::function<void()>& work) {
  std::optional<fake_cuda::HoldCalls> held(call);
  std::atomic<bool> over{false};
  std::thread thread([&] {
    work();
    over = true;
  });
  const bool ended = eventually([&] { return over.load(); });
  held.reset();
  thread.join();
  return ended;
}

/// What the poller had been given is asked for once at least.
void wait_for_polls() {
  class Asked final : public weir::cuda::Reached {
   public:
    explicit Asked(std::promise<void>& done) : done_(done) {}
    cudaError_t ask() noexcept override { return cudaSuccess; }
    void reached(cudaError_t) noexcept override { done_.set_value(); }

   private:
    std::promise<void>& done_;
  };
  std::promise<void> done;
  std::unique_ptr<weir::cuda::Reached> asked = std::make_unique<Asked>(done);
  weir::cuda::Poller::instance().add(&done, 0, nullptr, asked);
  done.get_future().wait();
}

// An error that is none of the device's says nothing of what is pending.
TEST(PinnedHousekeeping, blocks_of_which_the_driver_cannot_say_are_used_by_nobody_else) {
  constexpr std::size_t count = 100'000;  // more than the driver takes along, less than is staged by chunks
  weir::Stream s(gpu(), {.blocking = false}), t(gpu(), {.blocking = false});
  const auto x = weir::zeros<int>(s, count), y = weir::zeros<int>(t, count);
  const std::vector<int> first(count, 1), second(count, 2);
  // The first copy of its size has the housekeeping thread make one block for such: the next copies take that and no other.
  weir::copy(s, x, second);
  s.synchronize();
  t.synchronize();
  wait_for_housekeeping();
  for (int i = 0; i < 2; ++i) wait_for_polls();  // nobody asks for what is over any more
  const std::size_t pinned = fake_cuda::outstanding().pinned_blocks;
  {
    const fake_cuda::Pause pause(0, static_cast<CUstream_st*>(s.native()));
    const std::uint64_t asked = fake_cuda::returned_calls("cudaEventQuery");
    fake_cuda::fail_call("cudaEventQuery", 1, cudaErrorMemoryAllocation);
    weir::copy(s, x, first);
    EXPECT_TRUE(eventually([&] { return fake_cuda::returned_calls("cudaEventQuery") > asked; }));
    fake_cuda::fail_nothing();
    for (int i = 0; i < 2; ++i) wait_for_polls();
    EXPECT_EQ(fake_cuda::outstanding().pinned_blocks, pinned) << "it took a block that was made for its size";
    weir::copy(t, y, second);
  }
  EXPECT_EQ(x.to_host(), first);
  EXPECT_EQ(y.to_host(), second);
}

struct FillWithOne {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x) const { x[i] = 1; }
};

// R214: what these need is there when the device has started.
TEST(StocksHousekeeping, the_first_large_copy_of_pageable_memory_makes_nothing) {
  const weir::Device second = weir::devices("cuda").at(1);
  weir::Stream s(second);
  auto x = weir::zeros<int>(s, 1 << 20);
  s.synchronize();
  wait_for_housekeeping();
  const std::vector<int> source(x.size(), 7);
  EXPECT_TRUE(ends_without("cudaHostAlloc", [&] { weir::copy(s, x, source); }));
  EXPECT_EQ(x.to_host(), source);
}

TEST(StocksHousekeeping, graphs_make_no_events) {
  weir::Stream s(gpu());
  auto x = weir::zeros<int>(s, 16);
  s.synchronize();
  wait_for_housekeeping();
  EXPECT_TRUE(ends_without("cudaEventCreateWithFlags", [&] {
    weir::GraphBuilder b(gpu());
    b.launch(x.size(), FillWithOne{}, weir::out(x));
    const weir::Graph graph = b.build();
    graph.launch(s);
    s.synchronize();
  }));
  EXPECT_EQ(x.to_host().at(3), 1);
}

TEST(StocksHousekeeping, that_the_driver_does_not_fill_leak_nothing_and_are_filled_next) {
  weir::Stream(gpu()).synchronize();
  wait_for_housekeeping();
  weir::cuda::Stocks stocks(weir::cuda::CudaDevice::at(0));
  const fake_cuda::Outstanding before = fake_cuda::outstanding();
  for (const std::uint64_t n : {1, 40, 1024}) {
    fake_cuda::fail_call("cudaStreamCreateWithPriority", n, cudaErrorMemoryAllocation);
    EXPECT_TRUE(fails_with(weir::Errc::out_of_memory, [&] { stocks.fill({}); }));
    EXPECT_EQ(fake_cuda::outstanding().streams, before.streams);
    EXPECT_EQ(fake_cuda::outstanding().events, before.events);
  }
  // Events that were made before stay for the next time.
  fake_cuda::fail_call("cudaEventCreateWithFlags", 100, cudaErrorMemoryAllocation);
  EXPECT_TRUE(fails_with(weir::Errc::out_of_memory, [&] { stocks.fill({}); }));
  EXPECT_EQ(fake_cuda::outstanding().events, before.events + 99);
  fake_cuda::fail_nothing();
  stocks.fill({});
  EXPECT_EQ(fake_cuda::outstanding().events,
            before.events + weir::cuda::Stocks::events + weir::cuda::Stocks::timed_events);
  EXPECT_NE(stocks.take_event(false, {}), nullptr);
}

/// What a device has when it has started, which others had before.
fake_cuda::Outstanding made_by_start(std::size_t device) {
  const fake_cuda::Outstanding before = fake_cuda::outstanding();
  weir::Stream s(weir::devices("cuda").at(device));
  weir::fill(s, weir::zeros<int>(s, 16), 1);
  s.synchronize();
  wait_for_housekeeping();
  fake_cuda::Outstanding made = fake_cuda::outstanding();
  made.device_blocks -= before.device_blocks;
  made.pinned_blocks -= before.pinned_blocks;
  made.streams -= before.streams;
  made.events -= before.events;
  return made;
}

/// The third device is refused something at each step of its start, and starts at last.
WEIR_SCENE(cuda_starts_at_last) {
  made_by_start(0);
  const fake_cuda::Outstanding usual = made_by_start(1);
  const fake_cuda::Outstanding before = fake_cuda::outstanding();
  const std::pair<const char*, std::uint64_t> refused[] = {{"cudaMalloc", 1},
                                                           {"cudaStreamCreateWithPriority", 1000},
                                                           {"cudaEventCreateWithFlags", 100},
                                                           {"cudaEventCreateWithFlags", 500},
                                                           {"cudaHostAlloc", 1},
                                                           {"cudaMalloc", 1},
                                                           {"cudaHostAlloc", 1},
                                                           {"cudaMemsetAsync", 1},
                                                           {"cudaStreamSynchronize", 1}};
  for (const auto& [call, n] : refused) {
    fake_cuda::fail_call(call, n, cudaErrorMemoryAllocation);
    weir::Stream s(weir::devices("cuda").at(2));
    insist(fails_with(weir::Errc::out_of_memory, [&] { weir::zeros<int>(s, 16); }), call);
  }
  fake_cuda::fail_nothing();
  made_by_start(2);
  const fake_cuda::Outstanding now = fake_cuda::outstanding();
  // The last attempt finds the stock without the one stream that an earlier one has taken out of it for good.
  insist(now.streams - before.streams <= usual.streams + 1, "no stream is left of what failed");
  insist(now.events - before.events == usual.events, "no event is left of what failed");
  insist(now.device_blocks - before.device_blocks == usual.device_blocks, "nor memory of the device");
  insist(now.pinned_blocks - before.pinned_blocks == usual.pinned_blocks, "nor pinned memory");
}

TEST(DevicesHousekeeping, one_that_starts_at_last_has_lost_nothing) {
  const Outcome outcome = play("cuda_starts_at_last", {"WEIR_FAKE_CUDA_DEVICES=3"});
  EXPECT_TRUE(ended_well(outcome)) << outcome.output;
}

// R102: of a stream that is gone, and of one whose driver's stream is another one's by now.
TEST(PoolsHousekeeping, what_was_freed_on_streams_that_are_gone_goes_back_when_the_device_is_synchronised) {
  constexpr std::size_t bytes = 64 << 20;
  const weir::Pool pool(gpu());
  for (const bool used_again : {false, true}) {
    {
      weir::Stream gone(gpu(), {.priority = -2, .blocking = false});
      pool.free(gone, pool.allocate(gone, bytes));
    }
    EXPECT_GE(pool.statistics().reserved, bytes);
    std::optional<weir::Stream> next;
    if (used_again) next.emplace(gpu(), weir::StreamOptions{.priority = -2, .blocking = false});
    gpu().synchronize();
    EXPECT_EQ(pool.statistics().reserved, 0u);
  }
}

// What changes access looks at the pools that the driver has, and a pool that the driver gets at what access there is: one of both
// tells the driver.
TEST(PoolsHousekeeping, one_that_the_driver_gets_while_access_changes_has_the_access) {
  const weir::Device peer = weir::devices("cuda").at(1);
  weir::Stream s(gpu()), t(peer);
  s.synchronize();
  t.synchronize();
  const weir::Pool pool(gpu(), {.max_size = 77 << 20});  // no earlier one of the driver's is of this size
  std::optional<fake_cuda::HoldCalls> held("cudaMemPoolSetAttribute");
  const std::uint64_t begun = fake_cuda::calls("cudaMemPoolSetAttribute");
  std::thread user([&] { pool.free(s, pool.allocate(s, 1024)); });
  EXPECT_TRUE(eventually([&] { return fake_cuda::calls("cudaMemPoolSetAttribute") > begun; }));
  weir::enable_peer_access(peer, gpu());
  const std::uint64_t told = fake_cuda::calls("cudaMemPoolSetAccess");
  held.reset();
  user.join();
  EXPECT_EQ(fake_cuda::calls("cudaMemPoolSetAccess"), told + 1);
  weir::disable_peer_access(peer, gpu());
}

// What other pools have left is asked of the driver, which may let that wait.
TEST(PoolsHousekeeping, others_open_pools_while_one_looks_for_what_is_left_of_earlier_ones) {
  constexpr std::size_t size = 55 << 20;  // no earlier one of the driver's is of this size
  const auto use = [](const weir::Stream& s) {
    const weir::Pool pool(gpu(), {.max_size = size});
    pool.free(s, pool.allocate(s, 1024));
    s.synchronize();
  };
  const weir::Stream s(gpu());
  use(s);
  std::optional<fake_cuda::HoldCalls> held("cudaMemPoolTrimTo");
  const std::uint64_t begun = fake_cuda::calls("cudaMemPoolTrimTo");
  std::thread user([&] { use(s); });
  EXPECT_TRUE(eventually([&] { return fake_cuda::calls("cudaMemPoolTrimTo") > begun; }));
  std::atomic<bool> opened{false};
  std::optional<weir::Pool> other;
  std::thread opener([&] {
    other.emplace(gpu());
    opened = true;
  });
  EXPECT_TRUE(eventually([&] { return opened.load(); }));
  held.reset();
  user.join();
  opener.join();
}

// R214: the stream that its memory is freed in is there since the import.
TEST(SharingHousekeeping, an_import_ends_while_the_driver_makes_nothing) {
  weir::cuda::CudaSharing& sharing = weir::cuda::CudaSharing::instance();
  const weir::Stream s(gpu());
  const weir::Pool pool(gpu(), {.shareable = true});
  void* const data = pool.allocate(s, 4096);
  s.synchronize();
  const weir::detail::SharedMemory memory = sharing.share(*weir::PoolRef(pool).state(), data, "test", {});
  void* const imported = sharing.map(0, {memory, true, "exporter", "an array", "test", {}});
  EXPECT_TRUE(ends_without("cudaStreamCreateWithFlags", [&] { sharing.unmap(0, imported, memory); }));
  pool.free(s, data);
}

constexpr const weir::Kernel& filling() {
  return weir::detail::kernel_of<FillWithOne, weir::detail::Closure<FillWithOne, weir::View<int>>, 1>();
}
std::atomic<bool> is_loading{false}, may_load{true};
int load_at_once(void** function) {
  return static_cast<const weir::detail::DeviceCode*>(filling().device_code)->load(function);
}
int load_slowly(void** function) {
  is_loading = true;
  EXPECT_TRUE(eventually([] { return may_load.load(); }));
  return load_at_once(function);
}

// R66: the driver loads a kernel when what runs has ended.
TEST(KernelsHousekeeping, one_that_is_loaded_keeps_no_other_from_its_first_launch) {
  weir::Stream(gpu()).synchronize();
  using weir::detail::DeviceCode;
  static DeviceCode slow(DeviceCode::Kind::line, &load_slowly), other(DeviceCode::Kind::line, &load_at_once);
  weir::cuda::CudaDevice& device = weir::cuda::CudaDevice::at(0);
  may_load = false;
  const auto first = [&](DeviceCode& code) {
    weir::Kernel kernel = filling();
    kernel.device_code = &code;
    device.code_of(kernel, "test", "a kernel", {});
  };
  std::thread loader([&] { first(slow); });
  EXPECT_TRUE(eventually([] { return is_loading.load(); }));
  std::atomic<bool> loaded{false};
  std::thread launcher([&] {
    first(other);
    loaded = true;
  });
  EXPECT_TRUE(eventually([&] { return loaded.load(); }));
  may_load = true;
  loader.join();
  launcher.join();
  EXPECT_NE(device.known(slow), nullptr);
}

// Behind what it has taken stands an event, and the driver may let that wait for room.
TEST(StreamsHousekeeping, others_open_streams_while_a_wrapper_ends) {
  cudaStream_t foreign = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&foreign, cudaStreamNonBlocking), cudaSuccess);
  Marker marker;
  std::optional<weir::Stream> wrapper(weir::wrap_stream(gpu(), foreign));
  mark(*wrapper, marker);
  std::optional<fake_cuda::HoldCalls> held("cudaEventRecord");
  const std::uint64_t begun = fake_cuda::calls("cudaEventRecord");
  std::thread owner([&] { wrapper.reset(); });
  EXPECT_TRUE(eventually([&] { return fake_cuda::calls("cudaEventRecord") > begun; }));
  std::atomic<bool> opened{false};
  std::thread other([&] {
    const weir::Stream s(gpu());
    opened = true;
  });
  EXPECT_TRUE(eventually([&] { return opened.load(); }));
  held.reset();
  owner.join();
  other.join();
  gpu().synchronize();
  EXPECT_EQ(marker.value(), 1);
  EXPECT_EQ(cudaStreamDestroy(foreign), cudaSuccess);
}

TEST(Polling, no_host_function_and_no_callback_stands_in_a_stream_for_housekeeping) {
  const weir::Device cpu = weir::devices("cpu").at(0);
  struct Quiet : weir::Observer {
  } observer;
  weir::Stream a(gpu()), b(cpu);
  const auto count = [] {
    return fake_cuda::calls("cudaStreamAddCallback") + fake_cuda::calls("cudaLaunchHostFunc") +
           fake_cuda::calls("cuLaunchHostFunc");
  };
  const std::uint64_t before = count();
  Marker marker;
  weir::attach(observer);
  for (int i = 0; i < 10; ++i) {
    mark(a, marker, i);
    b.wait(a);
    const auto array = weir::zeros<int>(weir::pinned, 100);
    weir::copy(a, weir::empty<int>(a, 100), array);
  }
  b.synchronize();
  weir::detach(observer);
  EXPECT_EQ(count(), before);
}

// Commands carry the flag that their queue had when they were submitted: another thread's, which came second, is not the queue's.
TEST(Flags, the_first_one_of_a_queue_stays) {
  volatile unsigned long long first = 0;
  volatile unsigned long long second = 0;
  weir::cuda::FailureState failures;
  EXPECT_TRUE(failures.set_flag(&first));
  EXPECT_FALSE(failures.set_flag(&second));
  EXPECT_EQ(failures.guard().failed_at, &first);
  const std::uint64_t place = failures.open_place();
  failures.settle(place, std::make_shared<weir::Error>(weir::Errc::host_function_failed, "test", "test", "it failed",
                                                       weir::SourceLocation::current()));
  EXPECT_EQ(first, place);
  EXPECT_EQ(second, 0u);
  failures.take();
}

TEST(Polling, observers_that_want_no_times_put_nothing_into_a_stream) {
  struct Quiet : weir::Observer {
  } observer;
  weir::Stream s(gpu());
  auto x = weir::zeros<int>(s, 16);
  const auto calls = [&] {
    const std::uint64_t before = fake_cuda::calls_here("cudaEventRecord") + fake_cuda::calls_here("cudaLaunchHostFunc");
    for (int i = 0; i < 20; ++i) weir::fill(s, x, i);
    s.synchronize();
    return fake_cuda::calls_here("cudaEventRecord") + fake_cuda::calls_here("cudaLaunchHostFunc") - before;
  };
  const std::uint64_t unobserved = calls();
  weir::attach(observer, weir::Watch::commands | weir::Watch::memory | weir::Watch::host | weir::Watch::graphs |
                             weir::Watch::refusals);
  const std::uint64_t untimed = calls();
  weir::detach(observer);
  weir::attach(observer, weir::Watch::times);
  const std::uint64_t timed = calls();
  weir::detach(observer);
  EXPECT_EQ(untimed, unobserved);
  EXPECT_GE(timed, unobserved + 40) << "else this test would see nothing";
}

}  // namespace
}  // namespace weir_test
