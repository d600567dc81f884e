// Selftest checks of copies and stream-ordered memory.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <weir/array.hpp>
#include <weir/copy.hpp>
#include <weir/memory.hpp>

#include "checks.hpp"

namespace tool {

namespace {

constexpr std::size_t count = 1 << 16;

bool all_are(const weir::Array<std::uint32_t>& array, std::uint32_t value) {
  return std::all_of(array.begin(), array.end(), [value](std::uint32_t x) { return x == value; });
}

Verdict pinned_copies_do_not_block(weir::Device device) {
  const weir::Stream stream(device);
  const auto source = weir::full<std::uint32_t>(weir::pinned, count, 1);
  const auto result = weir::zeros<std::uint32_t>(weir::pinned, count);
  const auto there = weir::empty<std::uint32_t>(stream, count);
  stream.synchronize();
  Scenario scene(device);
  scene.hold({stream}, "K1");
  weir::copy(stream, there, source);
  weir::copy(stream, result, there);
  const bool returned = scene.unforced() && !stream.done();
  std::fill(source.begin(), source.end(), 2u);  // seen, as the copy has not begun
  scene.play();
  stream.synchronize();
  return Judgement()
      .expect(scene)
      .expect(returned, "a copy with pinned memory blocked the host")
      .expect(all_are(result, 2), "a copy did not run in its stream's order");
}

Verdict pageable_copies_are_safe(weir::Device device) {
  const weir::Stream stream(device);
  std::vector<std::uint32_t> source(1024, 1), result(1024, 0);
  const auto there = weir::empty<std::uint32_t>(stream, source.size());
  weir::copy(stream, there, source);
  std::fill(source.begin(), source.end(), 2u);
  weir::copy(stream, result, there);
  const bool good = std::all_of(result.begin(), result.end(), [](std::uint32_t x) { return x == 1; });
  stream.synchronize();
  return Judgement().expect(good, "pageable memory was read late, or the copy back returned early");
}

/// Memory that a held stream has freed, but still uses, and an allocation on a stream that does not wait for it.
bool freed_memory_stays_in_use(weir::Device device, Judgement& judgement) {
  const weir::Stream held(device, {.blocking = false}), other(device, {.blocking = false});
  const weir::Pool pool(device, {.release_threshold = std::numeric_limits<std::size_t>::max()});
  const auto result = weir::zeros<std::uint32_t>(weir::pinned, count);
  Scenario scene(device);
  scene.hold({held}, "K1");
  {
    const auto brief = weir::empty<std::uint32_t>(held, count, pool);
    weir::fill(held, brief, 7u);
  }
  const auto next = weir::empty<std::uint32_t>(other, count, pool);
  weir::fill(other, next, 9u);
  other.synchronize();
  scene.play();
  held.synchronize();
  weir::copy(other, result, next);
  other.synchronize();
  judgement.expect(scene);
  return all_are(result, 9);
}

Verdict memory_is_stream_ordered(weir::Device device) {
  const weir::Stream stream(device), other(device);
  const auto first = weir::zeros<std::uint32_t>(weir::pinned, count);
  const auto second = weir::zeros<std::uint32_t>(weir::pinned, count);
  const auto third = weir::zeros<std::uint32_t>(weir::pinned, count);
  Scenario scene(device);
  scene.hold({stream}, "K1");
  {
    const auto brief = weir::full<std::uint32_t>(stream, count, 7);
    weir::copy(stream, first, brief);
  }  // freed while its fill and its copy are pending
  const auto next = weir::full<std::uint32_t>(stream, count, 9);
  weir::copy(stream, second, next);
  other.wait(stream);
  weir::copy(other, third, next);
  const bool returned = scene.unforced();
  scene.play();
  stream.synchronize();
  other.synchronize();
  Judgement judgement;
  judgement.expect(scene)
      .expect(returned, "an allocation or a free blocked the host")
      .expect(all_are(first, 7), "memory was given away before its last use")
      .expect(all_are(second, 9) && all_are(third, 9), "an allocation on the stream has wrong contents");
  const bool kept = freed_memory_stays_in_use(device, judgement);
  return judgement.expect(kept, "memory that a stream freed, but still used, was given to a stream that did not wait");
}

Verdict strided_copies(weir::Device device) {
  constexpr std::size_t rows = 37, cols = 53;
  const weir::Stream stream(device);
  const auto source = weir::empty<std::uint32_t>(weir::pinned, {rows, cols});
  const auto result = weir::full<std::uint32_t>(weir::pinned, {cols, rows}, 0);
  for (std::size_t i = 0; i < rows * cols; ++i) source.data()[i] = static_cast<std::uint32_t>(i + 1);
  const auto there = weir::zeros<std::uint32_t>(stream, {rows, cols});
  // Every second column of some rows, and then all of it transposed.
  weir::copy(stream, there.slice({{3, 30}, {1, cols, 2}}), source.slice({{3, 30}, {1, cols, 2}}));
  weir::copy(stream, result, there.transposed());
  stream.synchronize();
  bool good = true;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < cols; ++c) {
      const std::uint32_t expected = r >= 3 && r < 30 && c % 2 == 1 ? source.data()[r * cols + c] : 0;
      good = good && result.data()[c * rows + r] == expected;
    }
  }
  return Judgement().expect(good, "a copy of a part of an array took or wrote other elements");
}

constexpr Check checks[] = {
    {"copies with pinned memory do not block the host", "W6 C2 R35", pinned_copies_do_not_block},
    {"copies with pageable memory are safe at once", "C4 R36 R38", pageable_copies_are_safe},
    {"memory is allocated and freed in stream order", "W18 R95", memory_is_stream_ordered},
    {"copies between strided parts are exact", "W7", strided_copies},
};

}  // namespace

std::span<const Check> memory_checks() { return checks; }

}  // namespace tool
