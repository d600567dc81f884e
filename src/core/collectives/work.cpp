// What a collective does to memory.
#include "core/collectives/work.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/collectives/halves.hpp"

namespace weir::detail {

namespace {

constexpr std::size_t block_bytes = 8192;  ///< of one array: the blocks of a fold stay in the nearest cache

template <class T>
constexpr bool is_short_float = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// Overflow wraps, as integers of the hardware do.
template <class T, class Op>
T apply(Op op, T a, T b) {
  if constexpr (is_short_float<T>) {
    return T(op(static_cast<float>(a), static_cast<float>(b)));
  } else if constexpr (std::is_integral_v<T> && (std::is_same_v<Op, Plus> || std::is_same_v<Op, Multiplies>)) {
    using U = std::uint64_t;
    return static_cast<T>(op(static_cast<U>(a), static_cast<U>(b)));
  } else {
    return op(a, b);
  }
}

template <class T, class Op>
void fold_elements(std::byte* to, const std::byte* a, const std::byte* b, std::size_t count) {
  auto* y = reinterpret_cast<T*>(to);
  const auto* x = reinterpret_cast<const T*>(a);
  const auto* z = reinterpret_cast<const T*>(b);
  for (std::size_t i = 0; i < count; ++i) y[i] = apply<T>(Op{}, x[i], z[i]);
}
template <class T>
void divide_elements(std::byte* to, std::size_t count, std::size_t by) {
  auto* y = reinterpret_cast<T*>(to);
  if constexpr (is_short_float<T>) {
    for (std::size_t i = 0; i < count; ++i) y[i] = T(static_cast<float>(y[i]) / static_cast<float>(by));
  } else if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
    for (std::size_t i = 0; i < count; ++i) y[i] = static_cast<T>(y[i] / static_cast<std::int64_t>(by));
  } else {
    for (std::size_t i = 0; i < count; ++i)
      y[i] = static_cast<T>(y[i] / static_cast<std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>>(by));
  }
}

using Fold = void (*)(std::byte*, const std::byte*, const std::byte*, std::size_t);
using Divide = void (*)(std::byte*, std::size_t, std::size_t);

template <class Op>
constexpr std::array<Fold, 13> folds = {nullptr,
                                        &fold_elements<std::int8_t, Op>,
                                        &fold_elements<std::uint8_t, Op>,
                                        &fold_elements<std::int16_t, Op>,
                                        &fold_elements<std::uint16_t, Op>,
                                        &fold_elements<std::int32_t, Op>,
                                        &fold_elements<std::uint32_t, Op>,
                                        &fold_elements<std::int64_t, Op>,
                                        &fold_elements<std::uint64_t, Op>,
                                        &fold_elements<float, Op>,
                                        &fold_elements<double, Op>,
                                        &fold_elements<Half, Op>,
                                        &fold_elements<BFloat16, Op>};
constexpr std::array<Divide, 13> divisions = {nullptr,
                                              &divide_elements<std::int8_t>,
                                              &divide_elements<std::uint8_t>,
                                              &divide_elements<std::int16_t>,
                                              &divide_elements<std::uint16_t>,
                                              &divide_elements<std::int32_t>,
                                              &divide_elements<std::uint32_t>,
                                              &divide_elements<std::int64_t>,
                                              &divide_elements<std::uint64_t>,
                                              &divide_elements<float>,
                                              &divide_elements<double>,
                                              &divide_elements<Half>,
                                              &divide_elements<BFloat16>};

Fold fold_of(Reduction reduction, ElementKind kind) {
  const auto at = static_cast<std::size_t>(kind);
  switch (reduction) {
    case Reduction::multiplies: return folds<Multiplies>[at];
    case Reduction::minimum: return folds<Minimum>[at];
    case Reduction::maximum: return folds<Maximum>[at];
    default: return folds<Plus>[at];
  }
}

bool is_dense(const Layout& layout) {
  auto dense = static_cast<std::ptrdiff_t>(layout.element_bytes);
  for (std::size_t d = layout.shape.rank(); d-- > 0;) {
    if (layout.shape[d] != 1 && layout.stride[d] != dense) return false;
    dense *= static_cast<std::ptrdiff_t>(layout.shape[d]);
  }
  return true;
}

/// Calls f(address, elements, bytes between them) for each row of `count` elements from `at` on.
template <class F>
void for_each_row(const Elements& elements, std::size_t at, std::size_t count, F&& f) {
  const Shape& shape = elements.layout.shape;
  const std::size_t inner = shape.rank() - 1;
  while (count > 0) {
    std::size_t rest = at;
    std::ptrdiff_t offset = 0;
    std::size_t column = 0;
    for (std::size_t d = shape.rank(); d-- > 0;) {
      const std::size_t index = rest % shape[d];
      rest /= shape[d];
      if (d == inner) column = index;
      offset += static_cast<std::ptrdiff_t>(index) * elements.layout.stride[d];
    }
    const std::size_t here = std::min(count, shape[inner] - column);
    f(elements.data + offset, here, elements.layout.stride[inner]);
    at += here;
    count -= here;
  }
}

}  // namespace

Elements::Elements(const CollectiveOperand& operand, std::size_t from)
    : data(operand.data), layout(operand.layout), dense(is_dense(operand.layout)), first(from) {}

const std::byte* Elements::read(std::size_t at, std::size_t count, std::byte* room) const {
  const std::size_t bytes = layout.element_bytes;
  if (dense) return data + (first + at) * bytes;
  std::byte* to = room;
  for_each_row(*this, first + at, count, [&](const std::byte* from, std::size_t elements, std::ptrdiff_t stride) {
    for (std::size_t i = 0; i < elements; ++i, from += stride, to += bytes) std::memcpy(to, from, bytes);
  });
  return room;
}

void Elements::write(std::size_t at, std::size_t count, const std::byte* from) const {
  const std::size_t bytes = layout.element_bytes;
  if (dense) {
    std::byte* const to = data + (first + at) * bytes;
    if (to != from) std::memcpy(to, from, count * bytes);
    return;
  }
  for_each_row(*this, first + at, count, [&](std::byte* to, std::size_t elements, std::ptrdiff_t stride) {
    for (std::size_t i = 0; i < elements; ++i, from += bytes, to += stride) std::memcpy(to, from, bytes);
  });
}

void CollectiveWork::fold(Reduction reduction, ElementKind kind, std::vector<Elements> in, std::vector<Elements> out,
                          std::size_t count, bool scattered) {
  fold_ = fold_of(reduction, kind);
  divide_ = reduction == Reduction::average ? divisions[static_cast<std::size_t>(kind)] : nullptr;
  element_bytes_ = in.front().layout.element_bytes;
  extent_ = scattered ? count * out.size() : count;
  scattered_by_ = scattered ? count : 0;
  in_ = std::move(in);
  out_ = std::move(out);
}

void CollectiveWork::move(const Elements& from, const Elements& to, std::size_t count) {
  const std::size_t bytes = from.layout.element_bytes;
  const bool there = from.dense && to.dense && from.data + from.first * bytes == to.data + to.first * bytes;
  if (count == 0 || there) return;
  element_bytes_ = bytes;
  moves_.push_back({from, to, extent_, count});
  extent_ += count;
}

void CollectiveWork::run(std::size_t begin, std::size_t end) const noexcept {
  if (begin >= end) return;  // there may be no moves at all
  if (fold_ != nullptr) {
    const std::size_t block = block_bytes / element_bytes_;
    while (begin < end) {
      std::size_t count = std::min(block, end - begin);
      if (scattered_by_ != 0) count = std::min(count, scattered_by_ - begin % scattered_by_);  // of one output
      fold_block(begin, count);
      begin += count;
    }
    return;
  }
  auto move = std::upper_bound(moves_.begin(), moves_.end(), begin,
                               [](std::size_t at, const Move& one) { return at < one.begin; }) -
              1;
  alignas(64) std::byte room[block_bytes];
  for (; begin < end; ++move) {
    const std::size_t until = std::min(end, move->begin + move->count);
    // What is dense goes in one piece; elements larger than the room one by one, straight from where they are.
    const bool whole = move->from.dense;
    const std::size_t most = whole ? until - begin : std::max<std::size_t>(1, block_bytes / element_bytes_);
    while (begin < until) {
      const std::size_t count = std::min(most, until - begin);
      const std::size_t at = begin - move->begin;
      if (!whole && element_bytes_ > block_bytes) {
        for_each_row(move->from, move->from.first + at, 1,
                     [&](const std::byte* from, std::size_t, std::ptrdiff_t) { move->to.write(at, 1, from); });
      } else {
        move->to.write(at, count, move->from.read(at, count, room));
      }
      begin += count;
    }
  }
}

/// Into a block of its own first: an output may be one of the inputs.
void CollectiveWork::fold_block(std::size_t at, std::size_t count) const noexcept {
  alignas(64) std::byte sum[block_bytes];
  alignas(64) std::byte room[2][block_bytes];
  const std::byte* first = in_.front().read(at, count, room[0]);
  if (in_.size() == 1) {
    std::memcpy(sum, first, count * element_bytes_);
  } else {
    fold_(sum, first, in_[1].read(at, count, room[1]), count);
  }
  for (std::size_t i = 2; i < in_.size(); ++i) fold_(sum, sum, in_[i].read(at, count, room[0]), count);
  if (divide_ != nullptr) divide_(sum, count, in_.size());
  if (scattered_by_ != 0) {
    out_[at / scattered_by_].write(at % scattered_by_, count, sum);
    return;
  }
  for (const Elements& out : out_) out.write(at, count, sum);
}

}  // namespace weir::detail
