// reduce and inclusive_scan on GPUs, by CUB. Part of algorithm.hpp where nvcc is at work; for the library.
#pragma once

#if defined(__CUDACC__)

#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <limits>
#include <type_traits>

#include <weir/array.hpp>
#include <weir/cuda.hpp>

namespace weir {

struct Plus;
struct Multiplies;
struct Minimum;
struct Maximum;

namespace detail {

/// The operators whose order does not matter, with the value that changes nothing: what CUB's reduction needs. Others go
/// by CUB's scan, which keeps the order.
template <class T, class Op>
inline constexpr bool has_identity = std::is_arithmetic_v<T> &&
                                     (std::is_same_v<Op, Plus> || std::is_same_v<Op, Multiplies> ||
                                      std::is_same_v<Op, Minimum> || std::is_same_v<Op, Maximum>);
template <class T, class Op>
constexpr T identity_of() {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_same_v<Op, Plus>) return T{0};
  if constexpr (std::is_same_v<Op, Multiplies>) return T{1};
  if constexpr (std::is_same_v<Op, Minimum>) return Limits::has_infinity ? Limits::infinity() : Limits::max();
  return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
}

/// One call of CUB's; without scratch memory it says how much it needs.
template <class T, class Op>
struct DeviceAlgorithm {
  const T* x;
  T* y;
  std::size_t n;
  Op op;
  void* scratch;
  std::size_t scratch_bytes;

  static int scan(const GlobalCall& call, void* stream) {
    auto& job = *static_cast<DeviceAlgorithm*>(call.arguments[0]);
    return cub::DeviceScan::InclusiveScan(job.scratch, job.scratch_bytes, job.x, job.y, job.op,
                                          static_cast<std::int64_t>(job.n), static_cast<cudaStream_t>(stream));
  }
  static int reduce(const GlobalCall& call, void* stream) {
    auto& job = *static_cast<DeviceAlgorithm*>(call.arguments[0]);
    return cub::DeviceReduce::Reduce(job.scratch, job.scratch_bytes, job.x, job.y, static_cast<std::int64_t>(job.n),
                                     job.op, identity_of<T, Op>(), static_cast<cudaStream_t>(stream));
  }

  static void** copy(void** arguments) {
    auto* kept = new Kept(*static_cast<const DeviceAlgorithm*>(arguments[0]));
    return &kept->argument;
  }
  static void forget(void** arguments) noexcept {
    delete static_cast<Kept*>(static_cast<DeviceAlgorithm*>(arguments[0]));
  }

 private:
  struct Kept;
};
template <class T, class Op>
struct DeviceAlgorithm<T, Op>::Kept : DeviceAlgorithm {
  explicit Kept(const DeviceAlgorithm& job) : DeviceAlgorithm(job), argument(static_cast<DeviceAlgorithm*>(this)) {}
  Kept(const Kept&) = delete;

  void* argument;
};

/// Runs it with scratch memory of the stream's. False if nothing was done: behind a host function that may still fail the
/// library's own kernels do the work, which look whether it did.
template <class T, class Op>
bool run_device_algorithm(DeviceAlgorithm<T, Op>& job, int (*run)(const GlobalCall&, void*), const char* name,
                          const char* operation, std::span<const Region> uses, StreamRef stream, SourceLocation where) {
  void* argument = &job;
  bool declined = false;
  GlobalCall call{nullptr,  {}, {}, 0, &argument, run, &DeviceAlgorithm<T, Op>::copy, &DeviceAlgorithm<T, Op>::forget,
                  &declined};
  job.scratch = nullptr;
  job.scratch_bytes = 0;
  if (run(call, nullptr) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  const auto scratch = empty<char>(Place(stream, where), job.scratch_bytes == 0 ? 1 : job.scratch_bytes);
  job.scratch = const_cast<char*>(scratch.data());
  submit_global(stream, call, uses, name, operation, where);
  return !declined;
}

template <class X>
bool on_gpu(StreamRef stream, const ArrayBase<X>& x, SourceLocation where) {
  return x.view().stride(0) == 1 && stream.device(where).backend() == "cuda";
}

template <class T, class Op, class X>
bool scan_on_device(StreamRef stream, const ArrayBase<X>& x, const ArrayBase<T>& y, Op op, SourceLocation where) {
  constexpr const char* operation = "weir::inclusive_scan";
  if (!on_gpu(stream, x, where) || !on_gpu(stream, y, where)) return false;
  Region regions[2];
  Region* region = regions;
  const auto from = bind_one<View<const T>>(in(x, where), stream, where, operation, region);
  const auto to = bind_one<View<T>>(out(y, where), stream, where, operation, region);
  DeviceAlgorithm<T, Op> job{from.data(), to.data(), from.size(), op, nullptr, 0};
  return run_device_algorithm(job, &DeviceAlgorithm<T, Op>::scan, "scan", operation, regions, stream, where);
}

template <class T, class Op, class X>
bool reduce_on_device(StreamRef stream, const ArrayBase<X>& x, const ArrayBase<T>& result, Op op,
                      SourceLocation where) {
  constexpr const char* operation = "weir::reduce";
  if (!on_gpu(stream, x, where)) return false;
  if constexpr (has_identity<T, Op>) {
    Region regions[2];
    Region* region = regions;
    const auto from = bind_one<View<const T>>(in(x, where), stream, where, operation, region);
    const auto to = bind_one<View<T>>(out(result, where), stream, where, operation, region);
    DeviceAlgorithm<T, Op> job{from.data(), to.data(), from.size(), op, nullptr, 0};
    return run_device_algorithm(job, &DeviceAlgorithm<T, Op>::reduce, "reduce", operation, regions, stream, where);
  } else {
    auto all = empty<T>(Place(stream, where), x.size());
    if (!scan_on_device<T, Op>(stream, x, all, op, where)) return false;
    copy(stream, result.slice(0, 1), all.slice(x.size() - 1, x.size()), where);
    return true;
  }
}

}  // namespace detail
}  // namespace weir

#endif
