// Elements under sizes and strides, and what each command does to them, one element after the other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <weir/shape.hpp>

#include "program.hpp"

namespace weir::stress {

/// Arithmetic in which order shows: no two of these commute.
WEIR_KERNEL constexpr Element scramble(Element a, Element b) {
  Element x = a * 0x9E3779B1u + ((b << 13) | (b >> 19)) + 0x7F4A7C15u;
  x ^= x >> 15;
  x *= 0x85EBCA77u;
  x ^= x >> 13;
  return x;
}
WEIR_KERNEL constexpr Element scramble(Element a, Element b, Element c) { return scramble(scramble(a, b), c); }

/// The operator of reductions and scans: associative, and commutative, as those ask.
enum class Reduction : std::uint8_t { plus, maximum };
constexpr Reduction reduction_of(Element salt) { return salt % 2 == 0 ? Reduction::plus : Reduction::maximum; }
constexpr Element reduce_two(Reduction op, Element a, Element b) {
  return op == Reduction::plus ? a + b : (a < b ? b : a);
}

/// Threads of each block of the cooperative kernel.
constexpr std::uint32_t block_threads(Element salt) { return 1u + salt % 37u; }

struct Window {
  Element* data = nullptr;
  std::size_t rank = 1;
  std::array<std::size_t, 4> size = {0, 1, 1, 1};
  std::array<std::ptrdiff_t, 4> stride = {1, 1, 1, 1};

  std::size_t count() const { return size[0] * size[1] * size[2] * size[3]; }
  /// The element of a row-major number.
  Element& operator[](std::size_t linear) const;
  /// The element that an index of `other` finds when it wraps around in every dimension; both of one rank.
  Element& wrapped(const Window& other, std::size_t linear) const;
  /// The same with a shift of `salt` in every dimension.
  Element& shifted(const Window& other, std::size_t linear, Element salt) const;
};

Window window(const Program& program, const Operand& operand, Element* data);

/// What a command does to its operands. `in` are the windows of its inputs, in order.
void apply_work(const Command& command, const std::vector<Window>& in, const Window& out);

/// The elements of the host range that an upload or `from` takes.
std::vector<Element> range_of(Element salt, std::size_t count);

}  // namespace weir::stress
