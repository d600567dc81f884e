// Numbers of 16 bits: on GPUs alone, and where CUDA's headers are.
#include <type_traits>

#include "collectives/ranks.hpp"

#if __has_include(<cuda_fp16.h>) && __has_include(<cuda_bf16.h>)
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace weir_test {
namespace {

using weir::inout;

template <class T>
T from_float(float value) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half(value);
  } else {
    return __float2bfloat16(value);
  }
}
float to_float(__half value) { return __half2float(value); }
float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <class T>
void expect_sums() {
  const Ranks ranks(2);
  std::vector<weir::Array<T>> x;
  for (std::size_t r = 0; r < 2; ++r) {
    x.push_back(weir::from(ranks.streams[r], std::vector<T>(100, from_float<T>(1.5f + static_cast<float>(r)))));
  }
  for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  for (std::size_t r = 0; r < 2; ++r) {
    for (const T& one : x[r].to_host()) ASSERT_EQ(to_float(one), 4.0f);
  }
}

TEST(CollectivesHalves, are_reduced_on_gpus_and_refused_elsewhere) {
  const weir::Device cpu = weir::device("cpu:0");
  const auto comms = weir::communicators({cpu});
  const weir::Stream s(cpu);
  const auto x = weir::empty<__half>(s, 4);
  EXPECT_TRUE(fails_with(weir::Errc::not_supported, [&] { weir::all_reduce(s, comms[0], inout(x)); },
                         {"__half is reduced on GPUs alone"}));
  weir::broadcast(s, comms[0], inout(x), 0);
  s.synchronize();
  if (on_cpu()) return;
  WEIR_NEEDS_RANKS(2u);
  expect_sums<__half>();
  expect_sums<__nv_bfloat16>();
}

}  // namespace
}  // namespace weir_test
#endif
