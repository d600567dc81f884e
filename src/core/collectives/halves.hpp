// Numbers of 16 bits on the host, as arithmetic of GPUs has them: each result is rounded to the nearest, ties to even.
#pragma once

#include <bit>
#include <cstdint>

namespace weir::detail {

/// IEEE's binary16: CUDA's __half.
struct Half {
  std::uint16_t bits = 0;

  Half() = default;
  explicit Half(float value) {
    const auto all = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = all >> 16 & 0x8000;
    std::uint32_t rest = all & 0x7fffffff;
    if (rest > 0x7f800000) {
      rest = 0x7e00;  // not a number
    } else if (rest >= 0x477ff000) {
      rest = 0x7c00;  // from 65,520 on it is rounded to infinity
    } else if (rest < 0x38800000) {
      // Below the least normal number: beside 0.5 the last bit of a float is the last one of these.
      rest = std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) + 0.5f) - std::bit_cast<std::uint32_t>(0.5f);
    } else {
      rest = (rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13;
    }
    bits = static_cast<std::uint16_t>(sign | rest);
  }
  explicit operator float() const {
    const std::uint32_t sign = std::uint32_t{bits} << 16 & 0x80000000;
    const std::uint32_t exponent = bits >> 10 & 0x1f;
    const std::uint32_t fraction = bits & 0x3ff;
    std::uint32_t rest = (exponent + 112) << 23 | fraction << 13;
    if (exponent == 0x1f) rest = 0x7f800000 | fraction << 13;
    if (exponent == 0) rest = std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24f);
    return std::bit_cast<float>(sign | rest);
  }
};

/// A float's upper half: CUDA's __nv_bfloat16.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) {
    const auto all = std::bit_cast<std::uint32_t>(value);
    const bool is_number = (all & 0x7fffffff) <= 0x7f800000;
    bits = static_cast<std::uint16_t>(is_number ? (all + 0x7fff + (all >> 16 & 1)) >> 16 : 0x7fff);
  }
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

}  // namespace weir::detail
