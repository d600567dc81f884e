// In the place of the backend's .cu files: the same calls, with kernels of the host.
#include <atomic>
#include <cstring>

#include "backends/cuda/collectives/widen_kernels.hpp"
#include "backends/cuda/graphs/condition_kernels.hpp"
#include "backends/cuda/memory/strided_kernels.hpp"
#include "backends/cuda/streams/clock_kernel.hpp"
#include "backends/cuda/streams/flag_kernel.hpp"
#include "backends/fake_cuda/conditions.hpp"
#include "backends/fake_cuda/kernels.hpp"

namespace weir::cuda {

namespace {

using fake_cuda::Dimensions;

constexpr unsigned no_body = ~0u;

template <class T>
const T& value_of(void** arguments, std::size_t i) {
  return *static_cast<const T*>(arguments[i]);
}

CUfunc_st set_condition{
    "set_condition",
    4,
    {sizeof(cudaGraphConditionalHandle), sizeof(const std::int32_t*), sizeof(bool), sizeof(detail::DeviceGuard)},
    [](const Dimensions&, void** arguments) {
      const auto handle = value_of<cudaGraphConditionalHandle>(arguments, 0);
      const bool number = value_of<bool>(arguments, 2);
      if (fake_cuda::skipped(value_of<detail::DeviceGuard>(arguments, 3))) {
        fake_cuda::set_conditional(handle, number ? no_body : 0u);
        return;
      }
      const std::int32_t present = *value_of<const std::int32_t*>(arguments, 1);
      const unsigned body = present < 0 ? no_body : static_cast<unsigned>(present);
      fake_cuda::set_conditional(handle, number ? body : present != 0 ? 1u : 0u);
    }};

CUfunc_st set_unfailed{"set_unfailed",
                       2,
                       {sizeof(cudaGraphConditionalHandle), sizeof(detail::DeviceGuard), 0, 0},
                       [](const Dimensions&, void** arguments) {
                         const bool skips = fake_cuda::skipped(value_of<detail::DeviceGuard>(arguments, 1));
                         fake_cuda::set_conditional(value_of<cudaGraphConditionalHandle>(arguments, 0),
                                                    skips ? 0u : 1u);
                       }};

/// Calls f(to, from, last index) for each unit.
template <class F>
void for_units(const StridedJob& job, const F& f) {
  for (std::uint64_t linear = 0; linear < job.count; ++linear) {
    std::uint64_t rest = linear;
    std::int64_t to = 0;
    std::int64_t from = 0;
    std::uint64_t last = 0;
    for (int d = StridedJob::most_dimensions - 1; d >= 0; --d) {
      const std::uint64_t index = d > 0 ? rest % job.size[d] : rest;
      rest /= job.size[d];
      if (d == StridedJob::most_dimensions - 1) last = index;
      to += static_cast<std::int64_t>(index) * job.to_stride[d];
      from += static_cast<std::int64_t>(index) * job.from_stride[d];
    }
    f(static_cast<char*>(job.to) + to, static_cast<const char*>(job.from) + from, last);
  }
}

template <std::size_t unit>
CUfunc_st copy_units{
    "copy_units", 2, {sizeof(StridedJob), sizeof(detail::DeviceGuard), 0, 0}, [](const Dimensions&, void** arguments) {
      if (fake_cuda::skipped(value_of<detail::DeviceGuard>(arguments, 1))) return;
      for_units(value_of<StridedJob>(arguments, 0),
                [](char* to, const char* from, std::uint64_t) { std::memcpy(to, from, unit); });
    }};

template <std::size_t unit>
CUfunc_st fill_units{"fill_units",
                     3,
                     {sizeof(StridedJob), sizeof(FillPattern), sizeof(detail::DeviceGuard), 0},
                     [](const Dimensions&, void** arguments) {
                       if (fake_cuda::skipped(value_of<detail::DeviceGuard>(arguments, 2))) return;
                       const auto& pattern = value_of<FillPattern>(arguments, 1);
                       for_units(value_of<StridedJob>(arguments, 0), [&](char* to, const char*, std::uint64_t last) {
                         std::memcpy(to, pattern.bytes + last % pattern.units * unit, unit);
                       });
                     }};

template <class To, class From>
CUfunc_st convert{
    "convert", 3, {sizeof(To*), sizeof(const From*), sizeof(std::size_t), 0}, [](const Dimensions&, void** arguments) {
      auto* to = value_of<To*>(arguments, 0);
      auto* from = value_of<const From*>(arguments, 1);
      const auto count = value_of<std::size_t>(arguments, 2);
      for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
    }};

template <template <std::size_t> class Pick>
const void* pick(std::size_t unit) {
  switch (unit) {
    case 1: return Pick<1>::kernel();
    case 2: return Pick<2>::kernel();
    case 4: return Pick<4>::kernel();
    case 8: return Pick<8>::kernel();
    default: return Pick<16>::kernel();
  }
}
template <std::size_t unit>
struct CopyKernel {
  static const void* kernel() { return &copy_units<unit>; }
};
template <std::size_t unit>
struct FillKernel {
  static const void* kernel() { return &fill_units<unit>; }
};

cudaError_t launch(const void* kernel, std::uint64_t count, void** arguments, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, dim3(count == 0 ? 0 : 1), dim3(256), arguments, 0, stream);
}

}  // namespace

ValueCondition::ValueCondition(cudaGraphConditionalHandle h, const std::int32_t* v, bool n,
                               const detail::DeviceGuard& g)
    : handle(h), value(v), number(n), guard(g), arguments{&handle, &value, &number, &guard} {
  parameters.func = &set_condition;
  parameters.gridDim = parameters.blockDim = dim3(1);
  parameters.kernelParams = arguments;
}

cudaError_t ValueCondition::launch(cudaStream_t stream) const {
  return cudaLaunchKernel(parameters.func, parameters.gridDim, parameters.blockDim, parameters.kernelParams, 0, stream);
}

UnfailedCondition::UnfailedCondition(cudaGraphConditionalHandle h, const detail::DeviceGuard& g)
    : handle(h), guard(g), arguments{&handle, &guard} {
  parameters.func = &set_unfailed;
  parameters.gridDim = parameters.blockDim = dim3(1);
  parameters.kernelParams = arguments;
}

namespace {
template <class To, class From>
cudaError_t launch_convert(void* to, const void* from, std::size_t count, cudaStream_t stream) {
  auto* out = static_cast<To*>(to);
  auto* in = static_cast<const From*>(from);
  void* arguments[] = {&out, &in, &count};
  return launch(&convert<To, From>, count, arguments, stream);
}
}  // namespace

cudaError_t launch_widen(void* to, const void* from, std::size_t count, bool is_signed, cudaStream_t stream) {
  return is_signed ? launch_convert<std::int32_t, std::int16_t>(to, from, count, stream)
                   : launch_convert<std::uint32_t, std::uint16_t>(to, from, count, stream);
}
cudaError_t launch_narrow(void* to, const void* from, std::size_t count, cudaStream_t stream) {
  return launch_convert<std::uint16_t, std::uint32_t>(to, from, count, stream);
}
cudaError_t load_widen_kernels() { return cudaSuccess; }

namespace {
CUfunc_st note_time{"note_time", 1, {sizeof(detail::KernelTimes*), 0, 0, 0}, [](const Dimensions&, void** arguments) {
                      auto* const to = value_of<detail::KernelTimes*>(arguments, 0);
                      to->begin = fake_cuda::device_timer();
                      to->end = fake_cuda::device_timer();
                    }};
}  // namespace

cudaError_t launch_note_time(detail::KernelTimes* to, cudaStream_t stream) {
  void* arguments[] = {&to};
  return cudaLaunchKernel(&note_time, dim3(1), dim3(1), arguments, 0, stream);
}
cudaError_t load_clock_kernel() { return cudaSuccess; }

namespace {
using FlagFrom = const volatile unsigned long long*;
using FlagTo = volatile unsigned long long*;

/// As fake_cuda::skipped() reads it: the host writes it with plain stores meanwhile.
#if defined(__clang__)
__attribute__((no_sanitize("thread"), noinline))
#elif defined(__GNUC__)
__attribute__((no_sanitize_thread, noinline))
#endif
unsigned long long
read_flag(FlagFrom flag) {
  return *flag;
}

CUfunc_st fetch_flag{
    "fetch_flag", 2, {sizeof(FlagFrom), sizeof(FlagTo), 0, 0}, [](const Dimensions&, void** arguments) {
      *value_of<FlagTo>(arguments, 1) = read_flag(value_of<FlagFrom>(arguments, 0));
    }};
CUfunc_st lower_flag{
    "lower_flag", 2, {sizeof(FlagFrom), sizeof(FlagTo), 0, 0}, [](const Dimensions&, void** arguments) {
      const std::atomic_ref to(*const_cast<unsigned long long*>(value_of<FlagTo>(arguments, 1)));
      const unsigned long long now = read_flag(value_of<FlagFrom>(arguments, 0));
      unsigned long long before = to.load();
      while (now < before && !to.compare_exchange_weak(before, now)) {
      }
    }};
}  // namespace

cudaError_t launch_fetch_flag(FlagFrom from, FlagTo to, cudaStream_t stream) {
  void* arguments[] = {&from, &to};
  return cudaLaunchKernel(&fetch_flag, dim3(1), dim3(1), arguments, 0, stream);
}
cudaError_t launch_lower_flag(FlagFrom from, FlagTo to, cudaStream_t stream) {
  void* arguments[] = {&from, &to};
  return cudaLaunchKernel(&lower_flag, dim3(1), dim3(1), arguments, 0, stream);
}
cudaError_t load_flag_kernel() { return cudaSuccess; }

cudaError_t load_condition_kernels() { return cudaSuccess; }
cudaError_t load_strided_kernels() { return cudaSuccess; }

cudaError_t launch_strided_copy(const StridedJob& job, std::size_t unit, const detail::DeviceGuard& guard,
                                cudaStream_t stream) {
  void* arguments[] = {const_cast<StridedJob*>(&job), const_cast<detail::DeviceGuard*>(&guard)};
  return launch(pick<CopyKernel>(unit), job.count, arguments, stream);
}

cudaError_t launch_strided_fill(const StridedJob& job, std::size_t unit, const FillPattern& pattern,
                                const detail::DeviceGuard& guard, cudaStream_t stream) {
  void* arguments[] = {const_cast<StridedJob*>(&job), const_cast<FillPattern*>(&pattern),
                       const_cast<detail::DeviceGuard*>(&guard)};
  return launch(pick<FillKernel>(unit), job.count, arguments, stream);
}

}  // namespace weir::cuda
