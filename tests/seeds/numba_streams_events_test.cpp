// Twins of the snippets of "CUDA by Numba examples, part 3: streams and events": a <- a / sum(a), on one stream and on
// ten, timed by events.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <weir/weir.hpp>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace {

using weir_test::blocks_until_open;
using weir_test::fails_with;
using weir_test::Gate;
using weir_test::returns_while_held;
using weir_test::stays;

constexpr std::uint32_t threads_per_block = 64;
constexpr std::size_t blocks_per_grid = 32;
constexpr std::size_t array_count = 10;

/// Each block adds up its part of the array: every thread strides over the grid, then the block folds its shared
/// memory.
struct PartialReduce {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<const double> array, weir::View<double> partial) const {
    const weir::View<double> shared = block.shared<double>(block.threads());
    block.each([&](std::size_t thread) {
      double sum = 0.0;
      for (std::size_t i = block.index() * block.threads() + thread; i < array.size();
           i += block.count() * block.threads()) {
        sum += array[i];
      }
      shared[thread] = sum;
    });
    for (std::size_t half = block.threads() / 2; half > 0; half /= 2) {
      block.each([&](std::size_t thread) {
        if (thread < half) shared[thread] += shared[thread + half];
      });
    }
    block.each([&](std::size_t thread) {
      if (thread == 0) partial[block.index()] = shared[0];
    });
  }
};

struct SingleThreadSum {
  WEIR_KERNEL void operator()(std::size_t, weir::View<const double> partial, weir::View<double> sum) const {
    sum[0] = 0.0;
    for (std::size_t i = 0; i < partial.size(); ++i) sum[0] += partial[i];
  }
};

struct DivideBy {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<double> array, weir::View<const double> divisor) const {
    array[i] /= divisor[0];
  }
};

/// The three kernels on one stream.
void normalize_on_device(weir::StreamRef stream, const weir::Array<double>& dev_a) {
  auto dev_a_reduce = weir::empty<double>(stream, blocks_per_grid);
  auto dev_a_sum = weir::empty<double>(stream, 1);
  weir::launch_blocks(stream,
                      {.blocks = blocks_per_grid,
                       .threads = threads_per_block,
                       .shared_bytes = threads_per_block * sizeof(double),
                       .name = "partial_reduce"},
                      PartialReduce{}, weir::in(dev_a), weir::out(dev_a_reduce));
  weir::launch(stream, 1, SingleThreadSum{}, weir::in(dev_a_reduce), weir::out(dev_a_sum));
  weir::launch(stream, dev_a.size(), DivideBy{}, weir::inout(dev_a), weir::in(dev_a_sum));
}

/// To the device, the three kernels, and back into the same host memory.
template <class HostArray>
void normalize(weir::StreamRef stream, HostArray& a) {
  const auto dev_a = weir::from(stream, a);
  normalize_on_device(stream, dev_a);
  weir::copy(stream, a, dev_a);
}

std::vector<double> random_values(std::size_t n, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> between(1.0, 2.0);
  std::vector<double> values(n);
  for (double& value : values) value = between(random);
  return values;
}

/// Whether `values` is `original` divided by its sum.
template <class Values>
testing::AssertionResult normalized(const Values& values, const std::vector<double>& original) {
  const double sum = std::accumulate(original.begin(), original.end(), 0.0);
  for (std::size_t i = 0; i < original.size(); ++i) {
    if (!(std::abs(values[i] * sum - original[i]) < 1e-10)) {
      return testing::AssertionFailure() << "element " << i << " is " << values[i] << " and not " << original[i] / sum;
    }
  }
  return testing::AssertionSuccess();
}

class NumbaStreamsEvents : public weir_test::AnyDevice {};

// Stream semantics in Numba CUDA (N1, N2, N3): example 3.1, pinned for a block, and synchronised by hand.
TEST_P(NumbaStreamsEvents, an_array_is_normalized_on_one_stream) {
  for (const std::size_t n : {1, 63, 64, 2048, 100'003}) {
    const std::vector<double> original = random_values(n);
    std::vector<double> a = original;
    {
      const weir::ScopedPin pin(a);
      weir::Stream stream(device());
      normalize(stream, a);
      stream.synchronize();
    }
    EXPECT_TRUE(normalized(a, original)) << "n = " << n;
    EXPECT_NEAR(std::accumulate(a.begin(), a.end(), 0.0), 1.0, 1e-12);
  }
}

// Stream semantics in Numba CUDA (N1, N2): example 3.1 with auto_synchronize.
TEST_P(NumbaStreamsEvents, leaving_an_auto_synchronize_block_waits_for_the_stream) {
  const std::vector<double> original = random_values(20'000);
  std::vector<double> a = original;
  const weir::ScopedPin pin(a);
  weir::Stream stream(device());
  Gate gate;

  EXPECT_TRUE(blocks_until_open(device(), gate, [&] {
    const weir::AutoSynchronize synchronize(stream);
    gate.hold(stream);
    normalize(stream, a);
  }));
  EXPECT_TRUE(stream.done());
  EXPECT_TRUE(normalized(a, original));
}

// Stream semantics in Numba CUDA (N2): a copy to the host is asynchronous if the memory is pinned, and only then.
TEST_P(NumbaStreamsEvents, copy_to_host_is_asynchronous_only_when_pinned) {
  const std::vector<double> original = random_values(5'000);
  std::vector<double> a(original.size());
  weir::Stream stream(device());
  const auto dev_a = weir::from(stream, original);
  {
    const weir::ScopedPin pin(a);
    Gate gate;
    gate.hold(stream);
    EXPECT_TRUE(returns_while_held(gate, [&] { weir::copy(stream, a, dev_a); }));
    EXPECT_EQ(a[0], 0.0);
    gate.open();
    stream.synchronize();
    EXPECT_EQ(a, original);
  }
  a.assign(a.size(), 0.0);
  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { weir::copy(stream, a, dev_a); }));
  EXPECT_EQ(a, original);
}

// Stream semantics in Numba CUDA (N2): memory is pinned inside the block, and pageable again after it.
TEST_P(NumbaStreamsEvents, memory_is_pinned_for_the_block_only) {
  std::vector<double> a(1000);
  {
    const weir::ScopedPin pin(a);
    EXPECT_EQ(weir::pointer_info(a.data()).kind, weir::MemoryKind::pinned);
    EXPECT_TRUE(fails_with(weir::Errc::already_pinned, [&] { weir::ScopedPin(a.data(), 8); }));
  }
  EXPECT_EQ(weir::pointer_info(a.data()).kind, weir::MemoryKind::pageable);
}

// Stream semantics in Numba CUDA (N1): the operations of the pipeline run one after the other.
TEST_P(NumbaStreamsEvents, the_kernels_of_a_stream_run_one_after_another) {
  const std::vector<double> original = random_values(10'000);
  weir::Stream stream(device());
  const auto dev_a = weir::from(stream, original);
  Gate gate;
  gate.hold(stream);
  normalize_on_device(stream, dev_a);
  EXPECT_TRUE(stays(device(), [&] { return !stream.done(); }));
  gate.open();
  EXPECT_TRUE(normalized(dev_a.to_host(), original));
}

/// Ten host arrays of their own values, pinned.
struct TenArrays {
  TenArrays() {
    for (std::size_t i = 0; i < array_count; ++i) {
      originals.push_back(random_values(10'000 + 777 * i, static_cast<unsigned>(i)));
      arrays.push_back(weir::empty<double>(weir::pinned, originals[i].size()));
      std::copy(originals[i].begin(), originals[i].end(), arrays[i].begin());
    }
  }
  std::vector<std::vector<double>> originals;
  std::vector<weir::Array<double>> arrays;
};

std::vector<weir::Stream> make_streams(weir::Device device, std::size_t count) {
  std::vector<weir::Stream> streams;
  for (std::size_t i = 0; i < count; ++i) streams.emplace_back(device);
  return streams;
}

// Decoupling independent kernels with streams (N3): ten arrays, each on a stream of its own.
TEST_P(NumbaStreamsEvents, ten_arrays_are_normalized_on_ten_streams) {
  TenArrays ten;
  const auto streams = make_streams(device(), array_count);
  for (std::size_t i = 0; i < array_count; ++i) normalize(streams[i], ten.arrays[i]);
  device().synchronize();
  for (std::size_t i = 0; i < array_count; ++i)
    EXPECT_TRUE(normalized(ten.arrays[i], ten.originals[i])) << "array " << i;
}

// Decoupling independent kernels with streams (N3): the same on a single stream.
TEST_P(NumbaStreamsEvents, ten_arrays_are_normalized_on_a_single_stream) {
  TenArrays ten;
  weir::Stream stream(device());
  for (weir::Array<double>& a : ten.arrays) normalize(stream, a);
  stream.synchronize();
  for (std::size_t i = 0; i < array_count; ++i)
    EXPECT_TRUE(normalized(ten.arrays[i], ten.originals[i])) << "array " << i;
}

// Decoupling independent kernels with streams (N3): no array waits for another, whichever of them is late.
TEST_P(NumbaStreamsEvents, streams_of_independent_arrays_do_not_wait_for_each_other) {
  TenArrays ten;
  const auto streams = make_streams(device(), array_count);
  Gate gate;
  gate.hold(streams[0]);
  for (std::size_t i = 0; i < array_count; ++i) normalize(streams[i], ten.arrays[i]);
  for (std::size_t i = 1; i < array_count; ++i) {
    EXPECT_TRUE(returns_while_held(gate, [&] { streams[i].synchronize(); }));
    EXPECT_TRUE(normalized(ten.arrays[i], ten.originals[i])) << "array " << i;
  }
  EXPECT_FALSE(streams[0].done());
  gate.open();
  streams[0].synchronize();
  EXPECT_TRUE(normalized(ten.arrays[0], ten.originals[0]));
}

// Events for timing kernel execution (N4): record, run, record, synchronise, elapsed. The device's time lies within the
// host's, and covers what is between the records.
TEST_P(NumbaStreamsEvents, two_events_time_what_is_between_them) {
  weir::Stream stream(device());
  const auto dev_a = weir::from(stream, random_values(100'000));
  stream.synchronize();

  weir::TimedEvent event_beg(device());
  weir::TimedEvent event_end(device());
  Gate gate;
  const auto host_begin = std::chrono::steady_clock::now();
  stream.record(event_beg);
  gate.hold(stream);
  normalize_on_device(stream, dev_a);
  stream.record(event_end);

  event_beg.synchronize();
  const auto held_from = std::chrono::steady_clock::now();
  EXPECT_TRUE(fails_with(weir::Errc::not_ready, [&] { (void)weir::elapsed(event_beg, event_end); }));
  EXPECT_TRUE(stays(device(), [&] { return !event_end.done(); }));
  const weir::Milliseconds held_for = std::chrono::steady_clock::now() - held_from;
  gate.open();

  event_end.synchronize();
  const weir::Milliseconds host_time = std::chrono::steady_clock::now() - host_begin;
  const weir::Milliseconds device_time = weir::elapsed(event_beg, event_end);
  EXPECT_GE(device_time.count(), 0.99f * held_for.count());
  EXPECT_LE(device_time.count(), 1.01f * host_time.count());
}

// Events for timing kernel execution (N4): the same as a block that times what it encloses.
TEST_P(NumbaStreamsEvents, a_scoped_timer_times_what_it_encloses) {
  weir::Stream stream(device());
  const auto dev_a = weir::from(stream, random_values(10'000));
  std::string name;
  weir::Milliseconds time{-1.0f};
  {
    const weir::ScopedTimer timer(stream, "normalize", [&](std::string_view of, weir::Milliseconds took) {
      name = of;
      time = took;
    });
    normalize_on_device(stream, dev_a);
  }
  EXPECT_EQ(name, "normalize");
  EXPECT_GT(time.count(), 0.0f);
  EXPECT_TRUE(stream.done()) << "the end of the block waits for what it timed";

  weir::ScopedTimer timer(stream);
  normalize_on_device(stream, dev_a);
  EXPECT_GT(timer.stop().count(), 0.0f);
}

// Events for timing streams (N4): two events for each stream; a stream that was held shows it, and the others do not.
TEST_P(NumbaStreamsEvents, events_time_each_of_several_streams) {
  TenArrays ten;
  const auto streams = make_streams(device(), array_count);
  std::vector<weir::TimedEvent> begins;
  std::vector<weir::TimedEvent> ends;
  Gate gate;
  for (std::size_t i = 0; i < array_count; ++i) {
    begins.push_back(streams[i].record_timed());
    if (i == 3) gate.hold(streams[i]);
    normalize(streams[i], ten.arrays[i]);
    ends.push_back(streams[i].record_timed());
  }
  for (std::size_t i = 0; i < array_count; ++i) {
    if (i == 3) continue;
    EXPECT_TRUE(returns_while_held(gate, [&] { ends[i].synchronize(); }));
  }
  gate.open();
  ends[3].synchronize();

  for (std::size_t i = 0; i < array_count; ++i) {
    EXPECT_GT(weir::elapsed(begins[i], ends[i]).count(), 0.0f);
    EXPECT_GE(weir::elapsed(ends[i], ends[3]).count(), 0.0f) << "the held stream was the last, not stream " << i;
  }
}

}  // namespace

ON_EVERY_DEVICE(NumbaStreamsEvents);
