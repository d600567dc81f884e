// Large copies of pageable memory on the fake driver: what is submitted when, and what the driver refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include <weir/weir.hpp>

#include "backends/fake_cuda/fake_cuda.hpp"
#include "support/gate.hpp"

namespace {

using namespace weir_test;

constexpr std::size_t n = std::size_t{1} << 20;  // 4 MiB

struct CopyElements {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const int> x, weir::View<int> y) const { y[i] = x[i]; }
};

class StagedCopies : public testing::Test {
 protected:
  void SetUp() override {
    source.resize(n);
    std::iota(source.begin(), source.end(), 1);
    stream = weir::Stream(device);
    array = weir::zeros<int>(stream, n);
    weir::copy(stream, array, source);  // what is made at the first use is there then
    weir::fill(stream, array, 0);
    stream.synchronize();
  }
  void TearDown() override { fake_cuda::fail_nothing(); }

  /// Whether a call of another thread's has put a kernel into a stream since.
  static bool submitted(std::uint64_t before) {
    return eventually([&] { return fake_cuda::returned_calls("cudaLaunchKernel") > before; });
  }

  const weir::Device device = weir::devices("cuda").at(0);
  weir::Stream stream;
  weir::Array<int> array;
  std::vector<int> source;
};

// stream: [hold]--[source -> array]--[array -> twin]     the copy's caller waits, the kernel is another thread's
TEST_F(StagedCopies, are_in_their_stream_before_it_comes_to_them) {
  auto twin = weir::zeros<int>(stream, n);
  stream.synchronize();
  Gate gate;
  gate.hold(stream);
  const std::uint64_t before = fake_cuda::returned_calls("cudaLaunchKernel");
  std::thread caller([&] { weir::copy(stream, array, source); });
  EXPECT_TRUE(submitted(before));
  weir::launch(stream, n, CopyElements{}, weir::in(array), weir::out(twin));
  gate.open();
  caller.join();
  EXPECT_EQ(twin.to_host(), source);
}

// stream: [hold]--[array -> target]--[array = 5]
TEST_F(StagedCopies, to_the_host_come_before_what_others_submit_behind_them) {
  weir::copy(stream, array, source);
  std::vector<int> target(n);
  Gate gate;
  gate.hold(stream);
  const std::uint64_t before = fake_cuda::returned_calls("cudaLaunchKernel");
  std::thread caller([&] { weir::copy(stream, target, array); });
  EXPECT_TRUE(submitted(before));
  weir::fill(stream, array, 5);
  gate.open();
  caller.join();
  EXPECT_EQ(target, source);
}

struct AddOneToEach {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x) const { x[i] += 1; }
};

// legacy: [hold]--[array += 1]     stream: [source -> array]     and the other way:   legacy: [hold]--[array += 1]     stream: [array -> target]
TEST_F(StagedCopies, of_blocking_streams_come_behind_what_the_legacy_stream_has) {
  const weir::StreamRef legacy = weir::legacy_stream(device);
  {
    Gate gate;
    gate.hold(legacy);
    weir::launch(legacy, n, AddOneToEach{}, weir::inout(array));
    EXPECT_TRUE(blocks_until_open(device, gate, [&] { weir::copy(stream, array, source); }));
  }
  EXPECT_EQ(array.to_host(), source) << "it overtook the kernel";
  Gate gate;
  gate.hold(legacy);
  weir::launch(legacy, n, AddOneToEach{}, weir::inout(array));
  std::vector<int> target(n);
  EXPECT_TRUE(blocks_until_open(device, gate, [&] { weir::copy(stream, target, array); }));
  for (int& one : source) ++one;
  EXPECT_EQ(target, source) << "it overtook the kernel";
}

// R3, R214:   stream: [hold]--[source -> array]--[kernel][kernel]...   until a thread waits for room behind the copy
TEST_F(StagedCopies, end_although_a_thread_waits_for_room_behind_them) {
  const Marker marker;
  Gate gate;
  gate.hold(stream);
  const std::uint64_t before = fake_cuda::returned_calls("cudaLaunchKernel");
  std::thread caller([&] { weir::copy(stream, array, source); });
  EXPECT_TRUE(submitted(before));
  std::thread filler([&] {
    for (int i = 0; i < 1100; ++i) mark(stream, marker, i);
  });
  EXPECT_TRUE(eventually([] { return fake_cuda::waiting_for_room() > 0; }));
  gate.open();
  caller.join();
  filler.join();
  EXPECT_EQ(array.to_host(), source);
}

// stream: [hold]--[throws]--[source -> array]
TEST_F(StagedCopies, behind_a_failure_move_nothing_and_tell_it) {
  Gate gate;
  gate.hold(stream);
  weir::host_call(stream, [] { throw std::runtime_error("before the copy"); });
  std::atomic<bool> told{false};
  std::thread caller([&] {
    try {
      weir::copy(stream, array, source);
    } catch (const weir::Error& error) {
      told = std::string(error.what()).find("before the copy") != std::string::npos;
    }
  });
  gate.open();
  caller.join();
  EXPECT_TRUE(told);
  EXPECT_EQ(array.to_host(), std::vector<int>(n, 0));
}

// While a copy waits, a thread asks the driver whether the device still answers. Every error but a fault of the device says nothing of
// it: the kernel is in the stream, and it will use the ring, and the caller's memory, when its turn comes.
// stream: [hold]--[source -> array]     and:   stream: [hold]--[array -> target]
TEST_F(StagedCopies, go_on_when_the_driver_cannot_say_whether_the_device_answers) {
  std::vector<int> target(n);
  for (const bool in : {true, false}) {
    Gate gate;
    gate.hold(stream);
    const std::uint64_t before = fake_cuda::returned_calls("cudaLaunchKernel");
    std::atomic<bool> over{false};
    std::thread caller([&] {
      EXPECT_NO_THROW(in ? weir::copy(stream, array, source) : weir::copy(stream, target, array));
      over = true;
    });
    EXPECT_TRUE(submitted(before));
    for (const int error : {2 /* cudaErrorMemoryAllocation */, 800 /* cudaErrorNotPermitted */}) {
      const std::uint64_t asked = fake_cuda::returned_calls("cudaStreamQuery");
      fake_cuda::fail_call("cudaStreamQuery", 1, error);
      // The second time, what came of the first is known.
      EXPECT_TRUE(eventually([&] { return fake_cuda::returned_calls("cudaStreamQuery") >= asked + 2; }));
      EXPECT_FALSE(over) << "the copy ended by an answer of the driver's that is none";
    }
    fake_cuda::fail_nothing();
    gate.open();
    caller.join();
  }
  EXPECT_EQ(array.to_host(), source);
  EXPECT_EQ(target, source);
}

TEST_F(StagedCopies, that_the_driver_refuses_name_the_callers_line_and_leave_nothing_behind) {
  std::vector<int> target(n);
  for (int i = 0; i < 3; ++i) {
    fake_cuda::fail_call("cudaLaunchKernel", 1, 1 /* cudaErrorInvalidValue */);
    const auto line = weir::SourceLocation::current();
    try {
      weir::copy(stream, array, source);
      ADD_FAILURE() << "the copy was not refused";
    } catch (const weir::Error& error) {
      EXPECT_EQ(error.where().line(), line.line() + 2) << error.what();
    }
    fake_cuda::fail_nothing();
    const std::size_t pinned = fake_cuda::outstanding().pinned_blocks;
    weir::copy(stream, array, source);
    weir::copy(stream, target, array);
    EXPECT_EQ(target, source);
    EXPECT_EQ(fake_cuda::outstanding().pinned_blocks, pinned);
  }
}

// Where the driver has no pinned memory, it stages the copy itself.
TEST_F(StagedCopies, without_pinned_memory_are_the_drivers) {
  weir::Stream other(device);
  auto twin = weir::zeros<int>(other, n);
  other.synchronize();
  Gate gate;
  gate.hold(stream);
  const std::uint64_t before = fake_cuda::returned_calls("cudaLaunchKernel");
  std::thread caller([&] { weir::copy(stream, array, source); });  // has the ring
  EXPECT_TRUE(submitted(before));
  fake_cuda::fail_call("cudaHostAlloc", 1, 2 /* cudaErrorMemoryAllocation */);
  weir::copy(other, twin, source);
  fake_cuda::fail_nothing();
  gate.open();
  caller.join();
  EXPECT_EQ(twin.to_host(), source);
  EXPECT_EQ(array.to_host(), source);
}

// stream: [hold]--[source -> array]     the call returns meanwhile, and has read the source
TEST(TakenCopies, that_several_threads_take_have_every_byte) {
  const weir::Device device = weir::devices("cuda").at(0);
  const weir::Stream stream(device);
  constexpr std::size_t half = 512 * 1024, most = 1024 * 1024;
  const auto array = weir::zeros<std::uint8_t>(stream, most + 1);
  for (const std::size_t bytes : {half - 1, half, half + 1, half + 64 * 1024 + 7, most - 1, most}) {
    std::vector<std::uint8_t> source(bytes);
    for (std::size_t i = 0; i < bytes; ++i) source[i] = static_cast<std::uint8_t>(i * 7 + i / 4096 + bytes);
    const std::vector<std::uint8_t> expected = source;
    Gate gate;
    gate.hold(stream);
    const auto part = array.slice(1, bytes + 1);
    EXPECT_TRUE(returns_while_held(gate, [&] { weir::copy(stream, part, source); })) << bytes;
    std::fill(source.begin(), source.end(), std::uint8_t{0});
    gate.open();
    EXPECT_EQ(part.to_host(), expected) << bytes;
  }
}

TEST(TakenCopies, of_several_threads_at_once_do_not_meet) {
  const weir::Device device = weir::devices("cuda").at(0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([device, t] {
      const weir::Stream stream(device);
      const auto array = weir::zeros<int>(stream, n / 4);
      for (int round = 0; round < 50; ++round) {
        std::vector<int> source(n / 4);
        std::iota(source.begin(), source.end(), t * 1'000'000 + round);
        weir::copy(stream, array, source);
        EXPECT_EQ(array.to_host(), source);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
