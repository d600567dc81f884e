// Large copies from and to pageable memory are commands of their stream like any other, whoever submits what is before and
// behind them (R2, R18, R19, R37, R38, R205).
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>

#include "arrays_support.hpp"
#include "support/between_looks.hpp"

using namespace weir_test;

class LargeCopies : public AnyDevice {
 protected:
  static constexpr std::size_t mebibyte = std::size_t{1} << 20;
  static constexpr std::size_t n = 4 * mebibyte / sizeof(int);
};
ON_EVERY_DEVICE(LargeCopies);

namespace {

/// Counts elements that differ from the first one.
struct CountMixed {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const int> x, int* mixed) const {
    if (x[i] != x[0]) add_to_word(mixed, 1);
  }
};

/// Calls `check` until another thread has copied twenty times. Eight calls for each copy at most: a lock that is not fair would keep
/// the other thread out.
template <class Copy, class Check>
void while_another_thread(Copy&& copy, Check&& check) {
  constexpr int copies = 20;
  std::atomic<int> copied{0};
  std::thread copier([&] {
    for (int value = 1; value <= copies; ++value) {
      copy(value);
      copied = value;
    }
  });
  for (int checks = 1; copied < copies; ++checks) {
    check(checks);
    for (int looks = 0; checks > 8 * (copied + 1) && copied < copies; ++looks) weir_test::between_looks(looks);
  }
  copier.join();
}

/// The other thread copies vectors of one value each into the array.
template <class Check>
void while_another_thread_copies(weir::StreamRef stream, weir::Array<int>& array, Check&& check) {
  while_another_thread([&](int value) { weir::copy(stream, array, std::vector<int>(array.size(), value)); },
                       [&](int) { check(); });
}

std::vector<std::uint8_t> bytes_from(std::size_t count, std::size_t seed) {
  std::vector<std::uint8_t> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>((i + seed) * 2654435761u >> 13);
  return bytes;
}

}  // namespace

// R2, R205:   thread 1:  [1... -> array]           [2... -> array]           ...     all into one stream,
//             thread 2:             [all alike?]              [all alike?]   ...     in any order
TEST_P(LargeCopies, to_the_device_are_seen_whole_by_what_other_threads_submit) {
  weir::Stream stream(device());
  auto array = weir::zeros<int>(stream, n);
  const Marker mixed;
  while_another_thread_copies(stream, array, [&] {
    weir::launch(stream, n, CountMixed{}, weir::in(array), mixed.word());
    stream.synchronize();
  });
  EXPECT_EQ(mixed.value(), 0);
}

// R18, R19:   blocking:  [1... -> array]           [2... -> array]
//             legacy:               [all alike?]              [all alike?]
TEST_P(LargeCopies, to_the_device_are_seen_whole_by_the_legacy_stream) {
  weir::Stream stream(device());
  const weir::StreamRef legacy = weir::legacy_stream(device());
  auto array = weir::zeros<int>(stream, n);
  const Marker mixed;
  while_another_thread_copies(stream, array, [&] {
    weir::launch(legacy, n, CountMixed{}, weir::in(array), mixed.word());
    legacy.synchronize();
  });
  EXPECT_EQ(mixed.value(), 0);
}

// R2, R205:   thread 1:  [array = 1]             [array = 2]            ...
//             thread 2:          [array -> target]       [array -> target]
TEST_P(LargeCopies, from_the_device_read_what_one_command_of_another_thread_wrote) {
  weir::Stream stream(device());
  auto array = weir::zeros<int>(stream, n);
  std::vector<int> target(n);
  while_another_thread(
      [&](int) {
        weir::copy(stream, target, array);
        EXPECT_EQ(std::count(target.begin(), target.end(), target.front()), static_cast<std::ptrdiff_t>(n));
      },
      [&](int value) {
        weir::fill(stream, array, value);
        stream.synchronize();
      });
}

// Sizes around what is moved at once, and beyond what is on its way at once; beginnings of any alignment.
TEST_P(LargeCopies, of_any_size_and_alignment_bring_every_byte_and_no_other) {
  weir::Stream stream(device());
  constexpr std::size_t room = 64;
  for (std::size_t bytes : {mebibyte / 4, mebibyte + 1, 4 * mebibyte - 1, 8 * mebibyte + 13, 20 * mebibyte + 7}) {
    for (std::size_t begin : {0u, 1u, 8u, 15u, 17u}) {
      auto array = weir::full(stream, bytes + room, std::uint8_t{7});
      const std::vector<std::uint8_t> source = bytes_from(bytes, begin);
      weir::copy(stream, array.slice(begin, begin + bytes), source);
      std::vector<std::uint8_t> expected(bytes + room, 7);
      std::copy(source.begin(), source.end(), expected.begin() + static_cast<std::ptrdiff_t>(begin));
      ASSERT_EQ(array.to_host(), expected) << bytes << " bytes at " << begin;
      std::vector<std::uint8_t> target(bytes + room, 9);
      weir::copy(stream, std::span(target).subspan(begin, bytes), array.slice(begin, begin + bytes));
      expected.assign(bytes + room, 9);
      std::copy(source.begin(), source.end(), expected.begin() + static_cast<std::ptrdiff_t>(begin));
      ASSERT_EQ(target, expected) << bytes << " bytes at " << begin;
    }
  }
}

// R37:   held 1 to 6:   [hold]--[source -> a]     each with a host thread that waits in the call
//        free:          [source -> b][b -> target]
TEST_P(LargeCopies, in_held_streams_leave_others_what_they_need) {
  constexpr std::size_t held = 6;
  // Streams of one priority share a GPU's queues, where held ones hold up others (R182).
  weir::Stream stream(
      device(), {.priority = device().properties().stream_priorities.greatest, .blocking = false, .name = "free"});
  auto b = weir::zeros<int>(stream, n);
  stream.synchronize();
  std::vector<weir::Stream> streams;
  std::vector<weir::Array<int>> arrays;
  for (std::size_t i = 0; i < held; ++i) {
    streams.push_back(free_stream(device(), "held"));
    arrays.push_back(weir::zeros<int>(streams.back(), n));
    streams.back().synchronize();
  }
  const std::vector<int> source = counted(n, 1);
  std::vector<int> target(n);
  std::atomic<std::size_t> entered{0};
  std::atomic<std::size_t> returned{0};
  std::vector<std::thread> callers;
  Gate gate;
  for (weir::Stream& one : streams) gate.hold(one);
  for (std::size_t i = 0; i < held; ++i) {
    callers.emplace_back([&, i] {
      ++entered;
      weir::copy(streams[i], arrays[i], source);
      ++returned;
    });
  }
  EXPECT_TRUE(eventually([&] { return entered == held; }));
  EXPECT_TRUE(returns_while_held(gate, [&] {
    for (int i = 0; i < 5; ++i) {
      weir::copy(stream, b, source);
      weir::copy(stream, target, b);
    }
  }));
  EXPECT_EQ(returned, 0u);
  gate.open();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(target, source);
  for (const weir::Array<int>& array : arrays) EXPECT_EQ(array.to_host(), source);
}

// Copies of many threads, each in a stream of its own, in both directions at once.
TEST_P(LargeCopies, of_many_threads_share_what_there_is) {
  constexpr int callers = 6;
  std::vector<std::thread> threads;
  for (int t = 0; t < callers; ++t) {
    threads.emplace_back([&, t] {
      weir::Stream stream(device(), {.blocking = t % 2 == 0});
      auto array = weir::zeros<int>(stream, n);
      std::vector<int> target(n);
      for (int i = 0; i < 8; ++i) {
        const std::vector<int> source = counted(n, 100 * t + i);
        weir::copy(stream, array, source);
        weir::copy(stream, target, array);
        EXPECT_EQ(target, source);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}
