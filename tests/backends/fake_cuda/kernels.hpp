// Gives kernels device code without nvcc: the functor's host side, as a function of the fake driver's. Included before
// everything else in the sources of a program that runs on it (as its precompiled header, or by -include), so that all of
// them see the same Kernel constants; Weir's headers know nothing of it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include <weir/kernel.hpp>

#include "backends/fake_cuda/function.hpp"

#define WEIR_FAKE_CUDA_KERNELS 1

namespace fake_cuda {

/// As in device_code.hpp. The host writes these words with plain stores while kernels read them, in the driver's world as here:
/// not a race that says anything.
#if defined(__clang__)
__attribute__((no_sanitize("thread"), noinline))
#elif defined(__GNUC__)
__attribute__((no_sanitize_thread, noinline))
#endif
inline bool
skipped(const weir::detail::DeviceGuard& guard) {
  return guard.failed_at != nullptr && *guard.failed_at <= guard.place;
}

/// The device's timer began a day before the host's clock.
inline unsigned long long device_timer() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch() + std::chrono::hours(24);
  return static_cast<unsigned long long>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

/// A kernel notes when it runs, if somebody wants to know.
class Noted {
 public:
  explicit Noted(const weir::detail::DeviceGuard& guard) : times_(guard.times) {
    if (times_ != nullptr) times_->begin = device_timer();
  }
  ~Noted() {
    if (times_ != nullptr) times_->end = device_timer();
  }
  Noted(const Noted&) = delete;
  Noted& operator=(const Noted&) = delete;

 private:
  weir::detail::KernelTimes* const times_;
};

/// Blocks of GPUs ask nothing more where elements are plain: it must be right then.
template <class C, class Size>
void expect_plain(const void* closure, const Size& size, const Dimensions& dimensions,
                  const weir::detail::DeviceGuard& guard) {
  if (size.plain == 0 && size.careful == 0 && size.alone == 0) return;
  bool right = guard.failed_at == nullptr && dimensions.grid[1] == 1;
  if constexpr (weir::detail::has_strides<C>) right = right && weir::detail::is_dense<C>(closure);
  if (right && size.alone != 0 && size.plain == 0 && guard.times != nullptr && dimensions.grid[0] == 1) return;
  const std::uint64_t noting = guard.times == nullptr ? 0 : 1 + weir::detail::ending_blocks;
  right = right && size.alone == 0 && size.careful == (noting == 0 ? 0 : 1) && dimensions.grid[0] > noting;
  const std::uint64_t all = (std::uint64_t{dimensions.grid[0]} - noting) * dimensions.block[0];
  if (right && size.plain == (noting == 0 ? size.count : all)) return;
  std::fputs("fake driver: a launch says of elements that they are plain, and they are not\n", stderr);
  std::abort();
}

template <class C, std::size_t R>
void run_on_device(const Dimensions& dimensions, void** arguments) {
  const auto& guard = *static_cast<const weir::detail::DeviceGuard*>(arguments[2]);
  if (skipped(guard)) return;
  const Noted noted(guard);
  if constexpr (R == 0) {
    weir::detail::BlockMemory memory;
    const auto& sizes = *static_cast<const weir::detail::BlockSizes*>(arguments[0]);
    weir::detail::run_closure_blocks<C>(arguments[1],
                                        weir::BlockRange{sizes, 0, sizes.count, dimensions.shared_bytes, &memory});
  } else if constexpr (R == 1) {
    const auto& size = *static_cast<const weir::detail::DeviceCount*>(arguments[0]);
    expect_plain<C>(arguments[1], size, dimensions, guard);
    const auto count = static_cast<std::size_t>(size.count);
    const weir::Shape shape(count);
    weir::detail::run_closure<1, C>(arguments[1], weir::KernelRange{&shape, 0, count});
  } else {
    const auto& extent = *static_cast<const weir::detail::DeviceExtent*>(arguments[0]);
    expect_plain<C>(arguments[1], extent, dimensions, guard);
    std::size_t sizes[weir::max_rank];
    for (std::size_t d = 0; d < weir::max_rank; ++d) sizes[d] = static_cast<std::size_t>(extent.size[d]);
    const weir::Shape shape = weir::Shape::of(R, sizes);
    weir::detail::run_closure<R, C>(arguments[1], weir::KernelRange{&shape, 0, static_cast<std::size_t>(extent.count)});
  }
}

template <class C, std::size_t R>
inline CUfunc_st function_object{"a weir kernel",
                                 3,
                                 {R > 1    ? sizeof(weir::detail::DeviceExtent)
                                  : R == 0 ? sizeof(weir::detail::BlockSizes)
                                           : sizeof(weir::detail::DeviceCount),
                                  sizeof(C), sizeof(weir::detail::DeviceGuard), 0},
                                 &run_on_device<C, R>};

template <class C, std::size_t R>
int load_function(void** function) {
  *function = &function_object<C, R>;
  return 0;
}

template <std::size_t R>
constexpr weir::detail::DeviceCode::Kind kind_of_code() {
  using Kind = weir::detail::DeviceCode::Kind;
  return R == 0 ? Kind::blocks : R == 1 ? Kind::line : Kind::shaped;
}

template <class C, std::size_t R>
inline weir::detail::DeviceCode code_object{kind_of_code<R>(), &load_function<C, R>,
                                            weir::detail::test_of_density<C>()};

/// What nvcc would refuse for devices has no code for them here either: what owns something, and host_only().
template <class C, std::size_t R>
constexpr const void* find_code() {
  if constexpr (weir::detail::is_host_only<C> || !std::is_trivially_copyable_v<C>) {
    return nullptr;
  } else {
    return &code_object<C, R>;
  }
}

}  // namespace fake_cuda

namespace weir::detail {

template <class C, std::size_t R>
inline constexpr const void* device_code<C, R, HostCompiler> = fake_cuda::find_code<C, R>();

}  // namespace weir::detail
