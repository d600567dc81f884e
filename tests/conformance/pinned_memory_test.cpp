// Pinning host memory, and what pinning changes (N2, R54, R57, R58, R59, R106, R107, R108).
// Left out: R109 (cudaFree and cudaFreeHost of wrong pointers): arrays free their own memory; pools are in pools_*.
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <thread>

#include "arrays_support.hpp"

using namespace weir_test;
using weir::Errc;
using weir::MemoryKind;

class PinnedMemory : public AnyDevice {
 protected:
  static constexpr std::size_t n = std::size_t{1} << 20;  // 4 MiB: a pageable copy would hold the host
};
ON_EVERY_DEVICE(PinnedMemory);

// N2, R54:   stream: [hold]--[a += source][a -> target]     asynchronous while pinned
TEST_P(PinnedMemory, copies_of_pinned_vectors_are_asynchronous) {
  weir::Stream stream(device());
  auto array = weir::zeros<int>(stream, n);
  std::vector<int> source(n, 1), target(n, 0);
  const weir::ScopedPin pin_source(source);
  const weir::ScopedPin pin_target(target);
  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    weir::copy(stream, array, source);
    weir::copy(stream, target, array);
  }));
  std::fill(source.begin(), source.end(), 2);
  EXPECT_EQ(target, std::vector<int>(n, 0));
  gate.open();
  stream.synchronize();
  EXPECT_EQ(target, std::vector<int>(n, 2));
}

// stream: [hold]--[source -> a]     pinned for the block only
TEST_P(PinnedMemory, after_the_block_the_memory_is_pageable_again) {
  weir::Stream stream(device());
  auto array = weir::zeros<int>(stream, n);
  std::vector<int> source(n, 1);
  {
    const weir::ScopedPin pin(source);
    EXPECT_EQ(weir::pointer_info(source.data()).kind, MemoryKind::pinned);
  }
  EXPECT_EQ(weir::pointer_info(source.data()).kind, MemoryKind::pageable);
  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { weir::copy(stream, array, source); }));
}

TEST_P(PinnedMemory, is_unpinned_when_the_block_ends_by_an_exception) {
  std::vector<int> values(1000);
  try {
    const weir::ScopedPin pin(values);
    throw std::runtime_error("leave");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(weir::pointer_info(values.data()).kind, MemoryKind::pageable);
  const weir::ScopedPin again(values);
}

// stream: [hold]--[source -> a]
// host:           the block's end waits for the copy, so that the vector may go
TEST_P(PinnedMemory, unpinning_waits_for_pending_copies_of_that_memory) {
  weir::Stream stream = free_stream(device(), "s");
  auto array = weir::zeros<int>(stream, n);
  std::optional<std::vector<int>> source(std::in_place, n, 1);
  stream.synchronize();
  Gate gate;
  gate.hold(stream);
  weir::pin(source->data(), n * sizeof(int));
  weir::copy(stream, array, *source);
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { weir::unpin(source->data()); }));
  std::fill(source->begin(), source->end(), -1);
  source.reset();
  EXPECT_EQ(read(stream, array), std::vector<int>(n, 1));
}

// R57, R58, R59: pinning returns at once; giving pinned memory back waits on a GPU, and does not here. (Unpinning may.)
//   held: [hold]
TEST_P(PinnedMemory, pinning_and_pinned_arrays_wait_for_nothing) {
  if (!on("cpu")) GTEST_SKIP() << "a GPU's driver waits for running kernels (R58, R59)";
  weir::Stream held(device());
  std::vector<int> values(10000);
  auto before = weir::zeros<int>(weir::pinned, 1000);
  Gate gate;
  gate.hold(held);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    const auto large = weir::zeros<int>(weir::pinned, n);
    before = weir::Array<int>();
    weir::pin(values.data(), values.size() * sizeof(int));
  }));
  gate.open();
  weir::unpin(values.data());
}

// R106
TEST_P(PinnedMemory, is_pinned_once) {
  std::vector<char> memory(65536);
  weir::pin(memory.data() + 4096, 8192);
  EXPECT_TRUE(fails_with(Errc::already_pinned, [&] { weir::pin(memory.data() + 4096, 8192); }, {"weir::pin"}));
  EXPECT_TRUE(fails_with(Errc::already_pinned, [&] { weir::pin(memory.data(), 8192); }));
  EXPECT_TRUE(fails_with(Errc::already_pinned, [&] { weir::pin(memory.data() + 8192, 8192); }));
  EXPECT_TRUE(fails_with(Errc::already_pinned, [&] { weir::pin(memory.data(), 65536); }));
  EXPECT_TRUE(fails_with(Errc::already_pinned, [&] { weir::pin(memory.data() + 5000, 10); }));
  weir::unpin(memory.data() + 4096);
  weir::pin(memory.data(), 65536);
  weir::unpin(memory.data());
}

TEST_P(PinnedMemory, ranges_that_touch_do_not_overlap) {
  std::vector<char> memory(3 * 4096 + 4096);
  char* const page = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 4095) / 4096 * 4096);
  weir::pin(page, 4096);
  weir::pin(page + 4096, 4096);
  weir::unpin(page);
  EXPECT_EQ(weir::pointer_info(page).kind, MemoryKind::pageable);
  EXPECT_EQ(weir::pointer_info(page + 4096).kind, MemoryKind::pinned);
  weir::unpin(page + 4096);
}

// R106, R107
TEST_P(PinnedMemory, that_weir_allocated_is_not_pinned_or_unpinned_by_hand) {
  const auto array = weir::zeros<int>(weir::pinned, 1000);
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { weir::pin(array.data(), 4000); }, {"weir::pin"}));
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { weir::unpin(array.data()); }, {"weir::unpin"}));
  EXPECT_EQ(weir::pointer_info(array.data()).kind, MemoryKind::pinned);
}

TEST_P(PinnedMemory, of_nothing_or_nowhere_is_an_error) {
  const int value = 0;
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { weir::pin(nullptr, 4096); }));
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { weir::pin(&value, 0); }));
  EXPECT_TRUE(fails_with(Errc::not_pinned, [&] { weir::unpin(&value); }, {"weir::unpin"}));
}

TEST_P(PinnedMemory, may_start_anywhere) {
  std::vector<char> memory(4096);
  weir::pin(memory.data() + 3, 1001);
  EXPECT_EQ(weir::pointer_info(memory.data() + 3).kind, MemoryKind::pinned);
  weir::unpin(memory.data() + 3);
}

// R107
TEST_P(PinnedMemory, is_unpinned_by_its_first_byte_and_once) {
  std::vector<char> memory(8192);
  weir::pin(memory.data(), 8192);
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { weir::unpin(memory.data() + 100); }, {"weir::unpin"}));
  weir::unpin(memory.data());
  EXPECT_TRUE(fails_with(Errc::not_pinned, [&] { weir::unpin(memory.data()); }));
}

TEST_P(PinnedMemory, an_inner_scope_that_fails_leaves_the_outer_one_alone) {
  std::vector<int> values(1000);
  const weir::ScopedPin outer(values);
  EXPECT_TRUE(fails_with(Errc::already_pinned, [&] { const weir::ScopedPin inner(values); }));
  EXPECT_EQ(weir::pointer_info(values.data()).kind, MemoryKind::pinned);
}

// R108
TEST_P(PinnedMemory, pointer_info_tells_kinds_of_memory) {
  weir::Stream stream(device());
  const weir::Pool pool(device());
  const auto on_device = weir::zeros<int>(stream, 1000);
  const auto pinned = weir::zeros<int>(weir::pinned, 1000);
  const auto pageable = weir::zeros<int>(weir::host, 1000);
  void* const raw = pool.allocate(stream, 1000);
  int local = 0;
  EXPECT_EQ(weir::pointer_info(on_device.data()).kind, MemoryKind::device);
  EXPECT_EQ(weir::pointer_info(on_device.data()).device, device().index());
  EXPECT_EQ(weir::pointer_info(on_device.data() + 500).kind, MemoryKind::device);
  EXPECT_EQ(weir::pointer_info(raw).kind, MemoryKind::device);
  EXPECT_EQ(weir::pointer_info(raw).device, device().index());
  EXPECT_EQ(weir::pointer_info(pinned.data()).kind, MemoryKind::pinned);
  EXPECT_EQ(weir::pointer_info(pinned.data() + 999).kind, MemoryKind::pinned);
  EXPECT_EQ(weir::pointer_info(pageable.data()).kind, MemoryKind::pageable);
  EXPECT_EQ(weir::pointer_info(&local).kind, MemoryKind::pageable);
  EXPECT_EQ(weir::pointer_info(&local).device, -1);
  EXPECT_EQ(weir::pointer_info(nullptr).kind, MemoryKind::pageable);
  pool.free(stream, raw);
}

TEST_P(PinnedMemory, kernels_reach_pinned_vectors) {
  weir::Stream stream(device());
  std::vector<int> values = counted(1000);
  const weir::ScopedPin pin(values);
  weir::launch(stream, 1000, AddValue{}, weir::View<int>(values.data(), 1000), 5);
  stream.synchronize();
  EXPECT_EQ(values, counted(1000, 5));
}

TEST_P(PinnedMemory, several_threads_pin_and_unpin) {
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([] {
      std::vector<int> values(1000);
      for (int round = 0; round < 200; ++round) {
        const weir::ScopedPin pin(values);
        EXPECT_EQ(weir::pointer_info(values.data()).kind, MemoryKind::pinned);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}
