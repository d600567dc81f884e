// Numbers of 16 bits among processes: where CUDA's headers are, on GPUs alone.
#if __has_include(<cuda_fp16.h>) && __has_include(<cuda_bf16.h>)
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "core/collectives/halves.hpp"
#include "ranks/world.hpp"

namespace {

template <class T>
std::uint16_t bits_of(const T& value) {
  return std::bit_cast<std::uint16_t>(value);
}
template <class T>
T with_bits(std::uint16_t bits) {
  return std::bit_cast<T>(bits);
}
__half cudas(float value, __half) { return __float2half(value); }
__nv_bfloat16 cudas(float value, __nv_bfloat16) { return __float2bfloat16(value); }
float cudas(__half value) { return __half2float(value); }
float cudas(__nv_bfloat16 value) { return __bfloat162float(value); }

/// All numbers there are become floats, and a million floats become numbers, as CUDA has it.
template <class Ours, class Theirs>
void expect_like_cudas() {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto same = static_cast<std::uint16_t>(bits);
    const auto ours = static_cast<float>(with_bits<Ours>(same));
    const float theirs = cudas(with_bits<Theirs>(same));
    ASSERT_EQ(std::isnan(ours), std::isnan(theirs)) << bits;
    if (std::isnan(theirs)) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(ours), std::bit_cast<std::uint32_t>(theirs)) << bits;
    ASSERT_EQ(bits_of(Ours(theirs)), same);
    // Half way to the next number, and beside that.
    const float next = cudas(with_bits<Theirs>(static_cast<std::uint16_t>(same + 1)));
    if (!std::isfinite(next) || !std::isfinite(theirs)) continue;
    const float middle = theirs / 2 + next / 2;
    for (const float value : {middle, std::nextafter(middle, theirs), std::nextafter(middle, next)}) {
      ASSERT_EQ(bits_of(Ours(value)), bits_of(cudas(value, Theirs()))) << value;
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 1'000'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isnan(value)) continue;
    ASSERT_EQ(bits_of(Ours(value)), bits_of(cudas(value, Theirs()))) << value;
  }
}

template <class T>
void expect_sums() {
  const weir::Communicator& all = ranks_test::shared();
  const weir::Stream s(ranks_test::device());
  constexpr std::size_t n = 3000;
  const auto element = [](std::size_t rank, std::size_t i) {
    return cudas(1.0f / static_cast<float>(3 + rank + i % 97), T());
  };
  std::vector<T> mine(n);
  for (std::size_t i = 0; i < n; ++i) mine[i] = element(static_cast<std::size_t>(all.rank()), i);
  const auto x = weir::from(s, mine);
  const auto y = weir::empty<T>(s, n);
  weir::all_reduce(s, all, weir::in(x), weir::out(y));
  const auto average = weir::empty<T>(s, n);
  weir::all_reduce(s, all, weir::in(x), weir::out(average), weir::Average{});
  const auto largest = weir::empty<T>(s, n);
  weir::all_reduce(s, all, weir::in(x), weir::out(largest), weir::Maximum{});
  s.synchronize();
  const std::vector<T> sums = y.to_host(), averages = average.to_host(), maxima = largest.to_host();
  const auto ranks = static_cast<std::size_t>(all.size());
  for (std::size_t i = 0; i < n; ++i) {
    T sum = element(0, i);
    for (std::size_t r = 1; r < ranks; ++r) sum = cudas(cudas(sum) + cudas(element(r, i)), T());
    ASSERT_EQ(bits_of(sums[i]), bits_of(sum)) << i;
    ASSERT_EQ(bits_of(averages[i]), bits_of(cudas(cudas(sum) / static_cast<float>(ranks), T()))) << i;
    ASSERT_EQ(bits_of(maxima[i]), bits_of(element(0, i))) << i;
  }
}

}  // namespace

TEST(Halves, are_rounded_as_cuda_rounds) { expect_like_cudas<weir::detail::Half, __half>(); }
TEST(Halves, of_eight_bits_are_rounded_as_cuda_rounds) { expect_like_cudas<weir::detail::BFloat16, __nv_bfloat16>(); }

TEST(OnRanksHalves, are_folded_in_the_order_of_ranks_and_rounded_each_time) {
  if (!ranks_test::is_rank()) GTEST_SKIP() << "needs several processes: weir ranks";
  if (std::string_view(ranks_test::device().backend()) == "cpu") GTEST_SKIP() << "reduced on GPUs alone";
  expect_sums<__half>();
  expect_sums<__nv_bfloat16>();
}
#endif
