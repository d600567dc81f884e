// Regions of as many strides as a view can have: exact in recordings, in files and for checkers.
#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/check.hpp>
#include <weir/host_access.hpp>
#include <weir/recorder.hpp>
#include <weir/recording.hpp>
#include <weir/scenario.hpp>
#include <weir/weir.hpp>

namespace {

using weir::Array;
using weir::Device;
using weir::Recording;
using weir::Slice;
using weir::Stream;
using weir::recorded::Command;
using weir::recorded::Op;
using weir::recorded::Use;

constexpr std::size_t side = 6, bytes = side * side * side * side * sizeof(int);
using Bytes = std::multiset<std::uint64_t>;

/// Every second element of each dimension, from `first`; 4 bytes, and four strides.
Slice<int> stepped(Array<int>& array, std::int64_t first) {
  const weir::Range range{first, static_cast<std::int64_t>(side), 2};
  return array.slice({range, range, range, range});
}
Bytes bytes_of_stepped(std::uint64_t first) {
  Bytes all;
  for (std::uint64_t i = first; i < side; i += 2)
    for (std::uint64_t j = first; j < side; j += 2)
      for (std::uint64_t k = first; k < side; k += 2)
        for (std::uint64_t l = first; l < side; l += 2)
          for (std::uint64_t b = 0; b < sizeof(int); ++b)
            all.insert((((i * side + j) * side + k) * side + l) * sizeof(int) + b);
  return all;
}

void add_bytes(const Use& use, Bytes& all) {
  std::uint64_t rows = 1;
  for (std::size_t d = 0; d < use.dimensions; ++d) rows *= use.repeat[d].count;
  for (std::uint64_t row = 0; row < rows; ++row) {
    std::uint64_t rest = row, at = use.offset;
    for (std::size_t d = 0; d < use.dimensions; ++d) {
      at += rest % use.repeat[d].count * use.repeat[d].stride;
      rest /= use.repeat[d].count;
    }
    for (std::uint64_t b = 0; b < use.bytes; ++b) all.insert(at + b);
  }
}

/// What all commands of that kind do to the two arrays.
Bytes touched(const Recording& recording, Op op, weir::recorded::Access access) {
  Bytes all;
  for (std::size_t i = 0; i < recording.size(); ++i) {
    const Command& command = recording.command(i);
    if (command.op != op) continue;
    for (std::size_t u = 0; u < recording.use_count(command); ++u) {
      const Use use = recording.use(command, u);
      if (use.access == access && recording.buffers()[use.buffer].bytes == bytes) add_bytes(use, all);
    }
  }
  return all;
}

std::size_t count(const Recording& recording, Op op) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < recording.size(); ++i) found += recording.command(i).op == op ? 1 : 0;
  return found;
}

struct Add {
  void operator()(weir::Index<4> i, weir::View<const int, 4> x, weir::View<int, 4> y) const { y[i] += x[i]; }
};

TEST(RecordedRegions, of_four_strides_are_exact) {
  using weir::recorded::Access;
  const Stream stream(weir::devices("cpu")[0]);
  weir::Recorder recorder({.times = false});
  Array<int> a = weir::empty<int>(stream, {side, side, side, side});
  Array<int> b = weir::empty<int>(stream, {side, side, side, side});
  Array<int> h = weir::empty<int>(weir::host, {side, side, side, side});
  weir::copy(stream, stepped(a, 0), stepped(b, 1));
  weir::fill(stream, stepped(b, 1), 7);
  weir::launch(stream, {3, 3, 3, 3}, Add{}, weir::in(stepped(a, 0)), weir::inout(stepped(b, 1)));
  stream.synchronize();
  { const auto guard = weir::host_write(stepped(h, 1)); }
  const Recording recording = recorder.finish();

  // In a file, copies, fills and scopes are taken apart, along the dimension of the fewest parts.
  const Recording read = weir::parse_recording(weir::to_json(recording));
  EXPECT_EQ(count(recording, Op::copy), 1u);
  EXPECT_EQ(count(read, Op::copy), 3u);
  EXPECT_EQ(count(read, Op::fill), 3u);
  EXPECT_EQ(count(read, Op::launch), 1u);
  EXPECT_EQ(count(read, Op::host_open), count(read, Op::host_close));
  for (const Recording* one : {&recording, &read}) {
    EXPECT_EQ(touched(*one, Op::copy, Access::out), bytes_of_stepped(0));
    EXPECT_EQ(touched(*one, Op::copy, Access::in), bytes_of_stepped(1));
    EXPECT_EQ(touched(*one, Op::fill, Access::out), bytes_of_stepped(1));
    EXPECT_EQ(touched(*one, Op::launch, Access::in), bytes_of_stepped(0));
    EXPECT_EQ(touched(*one, Op::launch, Access::inout), bytes_of_stepped(1));
    EXPECT_EQ(touched(*one, Op::host_open, Access::out), bytes_of_stepped(1));
    EXPECT_TRUE(weir::run_scenario(*one, {.file = "regions.json"}).misuse.empty());
  }
}

// Two streams use elements of one array that lie between each other's: silent; one element in common is found.
TEST(RecordedRegions, of_four_strides_are_told_apart_by_checkers) {
  const Device device = weir::devices("cpu")[0];
  for (const bool apart : {true, false}) {
    const Stream one(device), other(device);
    Array<int> a = weir::zeros<int>(one, {side, side, side, side});
    one.synchronize();
    const std::vector<int> values(81, 1);
    weir::Recorder recorder({.times = false});
    weir::Checker checker({.mode = weir::CheckMode::collect});
    weir::copy(one, stepped(a, 0), values);
    if (apart) {
      weir::copy(other, stepped(a, 1), values);
    } else {
      weir::copy(other, a.slice({{4, 6}, {4, 6}, {4, 6}, {4, 6}}), std::vector<int>(16, 1));
    }
    one.synchronize();
    other.synchronize();
    checker.finish();
    EXPECT_EQ(checker.report().errors, apart ? 0u : 1u) << weir::to_text(checker.report());
    const Recording read = weir::parse_recording(weir::to_json(recorder.finish()));
    weir::ScenarioChecker afterwards(read, {});
    afterwards.all();
    EXPECT_EQ(afterwards.report().errors, apart ? 0u : 1u) << weir::to_text(afterwards.report());
  }
}

}  // namespace
