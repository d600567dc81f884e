// The algorithms on GPUs, by CUB. Part of algorithm.hpp where nvcc is at work; for the library.
#pragma once

#if defined(__CUDACC__)

#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_histogram.cuh>
#include <cub/device/device_merge_sort.cuh>
#include <cub/device/device_partition.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>

#include <limits>
#include <type_traits>

#include <weir/array.hpp>
#include <weir/cuda.hpp>
#include <weir/operators.hpp>

namespace weir {

namespace detail {

struct NoValues;

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

/// Plus as the operator that CUB has tuned its kernels for, for types that a sum does not widen.
template <class T, class Op>
constexpr auto as_cub_knows_it(const Op& op) {
  if constexpr (std::is_same_v<Op, Plus> && std::is_arithmetic_v<T> && sizeof(T) >= sizeof(int)) {
    return ::cuda::std::plus<T>{};
  } else {
    return op;
  }
}

/// Calls of CUB's, as `int Work::run(void* scratch, std::size_t& scratch_bytes, cudaStream_t)`; without scratch memory they
/// say how much they need.
template <class Work>
struct DeviceAlgorithm {
  Work work;
  void* scratch;
  std::size_t scratch_bytes;

  static int run(const GlobalCall& call, void* stream) {
    auto& job = *static_cast<DeviceAlgorithm*>(call.arguments[0]);
    return job.work.run(job.scratch, job.scratch_bytes, static_cast<cudaStream_t>(stream));
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
template <class Work>
struct DeviceAlgorithm<Work>::Kept : DeviceAlgorithm {
  explicit Kept(const DeviceAlgorithm& job) : DeviceAlgorithm(job), argument(static_cast<DeviceAlgorithm*>(this)) {}
  Kept(const Kept&) = delete;

  void* argument;
};

/// Runs it with scratch memory of the stream's. False if nothing was done: behind a host function that may still fail the
/// library's own kernels do the work, which look whether it did.
template <class Work>
bool run_device_algorithm(const Work& work, const char* name, const char* operation, std::span<const Region> uses,
                          StreamRef stream, SourceLocation where) {
  using Algorithm = DeviceAlgorithm<Work>;
  Algorithm job{work, nullptr, 0};
  void* argument = &job;
  bool declined = false;
  GlobalCall call{nullptr, {}, {}, 0, &argument, &Algorithm::run, &Algorithm::copy, &Algorithm::forget, &declined};
  if (Algorithm::run(call, nullptr) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  const auto scratch = empty<char>(Place(stream, where), job.scratch_bytes == 0 ? 1 : job.scratch_bytes);
  job.scratch = const_cast<char*>(scratch.data());
  submit_global(stream, call, uses, name, operation, where);
  return !declined;
}

template <class... X>
bool on_gpu(StreamRef stream, SourceLocation where, const ArrayBase<X>&... arrays) {
  return ((arrays.view().stride(0) == 1) && ...) && stream.device(where).backend() == "cuda";
}

template <class T, class Op>
struct InclusiveScanWork {
  const T* x;
  T* y;
  std::int64_t n;
  Op op;
  int run(void* scratch, std::size_t& bytes, cudaStream_t stream) const {
    return cub::DeviceScan::InclusiveScan(scratch, bytes, x, y, as_cub_knows_it<T>(op), n, stream);
  }
};
template <class T, class Op>
struct ExclusiveScanWork {
  const T* x;
  T* y;
  std::int64_t n;
  T init;
  Op op;
  int run(void* scratch, std::size_t& bytes, cudaStream_t stream) const {
    return cub::DeviceScan::ExclusiveScan(scratch, bytes, x, y, as_cub_knows_it<T>(op), init, n, stream);
  }
};
template <class T, class Op>
struct ReduceWork {
  const T* x;
  T* result;
  std::int64_t n;
  Op op;
  int run(void* scratch, std::size_t& bytes, cudaStream_t stream) const {
    return cub::DeviceReduce::Reduce(scratch, bytes, x, result, n, as_cub_knows_it<T>(op), identity_of<T, Op>(),
                                     stream);
  }
};

/// Runs the work that `make` makes of both arrays' memory and of the length of the first.
template <class T, class X, class Make>
bool run_between(StreamRef stream, const ArrayBase<X>& x, const ArrayBase<T>& y, const char* name,
                 const char* operation, SourceLocation where, const Make& make) {
  Region regions[2];
  Region* region = regions;
  const auto from = bind_one<View<const T>>(in(x, where), stream, where, operation, region);
  const auto to = bind_one<View<T>>(out(y, where), stream, where, operation, region);
  return run_device_algorithm(make(from.data(), to.data(), static_cast<std::int64_t>(from.size())), name, operation,
                              regions, stream, where);
}

template <class T, class Op, class X>
bool scan_on_device(StreamRef stream, const ArrayBase<X>& x, const ArrayBase<T>& y, Op op, SourceLocation where) {
  if (!on_gpu(stream, where, x, y)) return false;
  return run_between(stream, x, y, "scan", "weir::inclusive_scan", where, [&](const T* from, T* to, std::int64_t n) {
    return InclusiveScanWork<T, Op>{from, to, n, op};
  });
}

template <class T, class Op, class X>
bool exclusive_scan_on_device(StreamRef stream, const ArrayBase<X>& x, const ArrayBase<T>& y, T init, Op op,
                              SourceLocation where) {
  if (!on_gpu(stream, where, x, y)) return false;
  return run_between(stream, x, y, "exclusive scan", "weir::exclusive_scan", where,
                     [&](const T* from, T* to, std::int64_t n) {
                       return ExclusiveScanWork<T, Op>{from, to, n, init, op};
                     });
}

template <class T, class Op, class X>
bool reduce_on_device(StreamRef stream, const ArrayBase<X>& x, const ArrayBase<T>& result, Op op,
                      SourceLocation where) {
  if (!on_gpu(stream, where, x)) return false;
  if constexpr (has_identity<T, Op>) {
    return run_between(stream, x, result, "reduce", "weir::reduce", where, [&](const T* from, T* to, std::int64_t n) {
      return ReduceWork<T, Op>{from, to, n, op};
    });
  } else {
    auto all = empty<T>(Place(stream, where), x.size());
    if (!scan_on_device<T, Op>(stream, x, all, op, where)) return false;
    copy(stream, result.slice(0, 1), all.slice(x.size() - 1, x.size()), where);
    return true;
  }
}

/// A radix sort goes to and fro between the keys and scratch memory; where it ends there, the result is copied back.
template <class K, class V, class Compare>
struct SortWork {
  K* keys;
  V* values;  ///< null, of type NoValues, if there are none
  std::int64_t n;
  Compare less;

  static constexpr bool pairs = !std::is_same_v<V, NoValues>;
  static std::size_t rounded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

  int run(void* scratch, std::size_t& bytes, cudaStream_t stream) const {
    if constexpr (sorts_by_bits<K, Compare>) {
      const std::size_t key_bytes = rounded(static_cast<std::size_t>(n) * sizeof(K));
      const std::size_t value_bytes = pairs ? rounded(static_cast<std::size_t>(n) * sizeof(V)) : 0;
      auto* other = static_cast<char*>(scratch);
      cub::DoubleBuffer<K> key_buffers(keys, reinterpret_cast<K*>(other));
      cub::DoubleBuffer<V> value_buffers(values, reinterpret_cast<V*>(other + (scratch == nullptr ? 0 : key_bytes)));
      std::size_t own = bytes - key_bytes - value_bytes;  // meaningless, and unused, without scratch memory
      int answer = radix(scratch == nullptr ? nullptr : other + key_bytes + value_bytes, own, key_buffers,
                         value_buffers, stream);
      if (scratch == nullptr) {
        bytes = rounded(own == 0 ? 1 : own) + key_bytes + value_bytes;
        return answer;
      }
      if (answer == cudaSuccess && key_buffers.Current() != keys) {
        answer = cudaMemcpyAsync(keys, key_buffers.Current(), static_cast<std::size_t>(n) * sizeof(K),
                                 cudaMemcpyDeviceToDevice, stream);
      }
      if constexpr (pairs) {
        if (answer == cudaSuccess && value_buffers.Current() != values) {
          answer = cudaMemcpyAsync(values, value_buffers.Current(), static_cast<std::size_t>(n) * sizeof(V),
                                   cudaMemcpyDeviceToDevice, stream);
        }
      }
      return answer;
    } else if constexpr (pairs) {
      return cub::DeviceMergeSort::StableSortPairs(scratch, bytes, keys, values, n, less, stream);
    } else {
      return cub::DeviceMergeSort::StableSortKeys(scratch, bytes, keys, n, less, stream);
    }
  }

 private:
  int radix(void* scratch, std::size_t& bytes, cub::DoubleBuffer<K>& key_buffers,
            [[maybe_unused]] cub::DoubleBuffer<V>& value_buffers, cudaStream_t stream) const {
    constexpr int bits = 8 * sizeof(K);
    using Sort = cub::DeviceRadixSort;
    if constexpr (pairs && std::is_same_v<Compare, Less>) {
      return Sort::SortPairs(scratch, bytes, key_buffers, value_buffers, n, 0, bits, stream);
    } else if constexpr (pairs) {
      return Sort::SortPairsDescending(scratch, bytes, key_buffers, value_buffers, n, 0, bits, stream);
    } else if constexpr (std::is_same_v<Compare, Less>) {
      return Sort::SortKeys(scratch, bytes, key_buffers, n, 0, bits, stream);
    } else {
      return Sort::SortKeysDescending(scratch, bytes, key_buffers, n, 0, bits, stream);
    }
  }
};

template <class K, class Compare>
bool sort_on_device(StreamRef stream, const ArrayBase<K>& keys, const NoValues&, Compare less, const char* operation,
                    SourceLocation where) {
  if (!on_gpu(stream, where, keys)) return false;
  Region regions[1];
  Region* region = regions;
  const auto all = bind_one<View<K>>(inout(keys, where), stream, where, operation, region);
  const SortWork<K, NoValues, Compare> work{all.data(), nullptr, static_cast<std::int64_t>(all.size()), less};
  return run_device_algorithm(work, "sort", operation, regions, stream, where);
}
template <class K, class V, class Compare>
bool sort_on_device(StreamRef stream, const ArrayBase<K>& keys, const ArrayBase<V>& values, Compare less,
                    const char* operation, SourceLocation where) {
  if (!on_gpu(stream, where, keys, values)) return false;
  Region regions[2];
  Region* region = regions;
  const auto all = bind_one<View<K>>(inout(keys, where), stream, where, operation, region);
  const auto beside = bind_one<View<V>>(inout(values, where), stream, where, operation, region);
  const SortWork<K, V, Compare> work{all.data(), beside.data(), static_cast<std::int64_t>(all.size()), less};
  return run_device_algorithm(work, "sort by key", operation, regions, stream, where);
}

/// Partition's others come in the opposite order.
template <class T, class N, class Predicate, bool all>
struct SelectWork {
  const T* x;
  T* y;
  N* count;
  std::int64_t n;
  Predicate chosen;
  int run(void* scratch, std::size_t& bytes, cudaStream_t stream) const {
    if constexpr (all) {
      return cub::DevicePartition::If(scratch, bytes, x, y, count, n, chosen, stream);
    } else {
      return cub::DeviceSelect::If(scratch, bytes, x, y, count, n, chosen, stream);
    }
  }
};
template <class X, class T, class N, class Predicate, bool all>
bool select_on_device(StreamRef stream, const ArrayBase<X>& x, const ArrayBase<T>& y, const ArrayBase<N>& count,
                      const Predicate& chosen, std::bool_constant<all>, const char* operation, SourceLocation where) {
  if (!on_gpu(stream, where, x, y)) return false;
  Region regions[3];
  Region* region = regions;
  const auto from = bind_one<View<const T>>(in(x, where), stream, where, operation, region);
  const auto to = bind_one<View<T>>(out(y, where), stream, where, operation, region);
  const auto total = bind_one<View<N>>(out(count, where), stream, where, operation, region);
  const SelectWork<T, N, Predicate, all> work{from.data(), to.data(), total.data(),
                                              static_cast<std::int64_t>(from.size()), chosen};
  return run_device_algorithm(work, all ? "partition" : "select", operation, regions, stream, where);
}

/// The bin of each element as a sample of its own, so that its edges are those of every other backend.
template <class T, class N, class BinOf>
struct HistogramWork {
  const T* x;
  N* counts;
  std::int64_t n;
  BinOf bin_of;

  struct Bin {
    BinOf bin_of;
    __host__ __device__ int operator()(const T& value) const { return static_cast<int>(bin_of(value)); }
  };
  int run(void* scratch, std::size_t& bytes, cudaStream_t stream) const {
    const int bins = static_cast<int>(bin_of.bins);
    return cub::DeviceHistogram::HistogramEven(scratch, bytes, thrust::make_transform_iterator(x, Bin{bin_of}), counts,
                                               bins + 1, 0, bins, n, stream);
  }
};
template <class X, class N, class BinOf>
bool histogram_on_device(StreamRef stream, const ArrayBase<X>& x, const ArrayBase<N>& counts, const BinOf& bin_of,
                         const char* operation, SourceLocation where) {
  using T = std::remove_const_t<X>;
  // CUB adds by CUDA's atomics, which have these types.
  if constexpr (std::is_same_v<N, int> || std::is_same_v<N, unsigned> || std::is_same_v<N, unsigned long long>) {
    constexpr std::size_t most_bins = std::size_t{1} << 30;
    if (!on_gpu(stream, where, x, counts) || bin_of.bins > most_bins) return false;
    Region regions[2];
    Region* region = regions;
    const auto from = bind_one<View<const T>>(in(x, where), stream, where, operation, region);
    const auto to = bind_one<View<N>>(out(counts, where), stream, where, operation, region);
    const HistogramWork<T, N, BinOf> work{from.data(), to.data(), static_cast<std::int64_t>(from.size()), bin_of};
    return run_device_algorithm(work, "histogram", operation, regions, stream, where);
  } else {
    return false;
  }
}

template <class K, class V, class N, class Op>
struct ReduceByKeyWork {
  const K* keys;
  const V* values;
  K* unique;
  V* sums;
  N* count;
  std::int64_t n;
  Op op;
  int run(void* scratch, std::size_t& bytes, cudaStream_t stream) const {
    return cub::DeviceReduce::ReduceByKey(scratch, bytes, keys, unique, values, sums, count, op, n, stream);
  }
};
template <class X, class Y, class K, class V, class N, class Op>
bool reduce_by_key_on_device(StreamRef stream, const ArrayBase<X>& keys, const ArrayBase<Y>& values,
                             const ArrayBase<K>& unique, const ArrayBase<V>& sums, const ArrayBase<N>& count, Op op,
                             const char* operation, SourceLocation where) {
  if (!on_gpu(stream, where, keys, values, unique, sums)) return false;
  Region regions[5];
  Region* region = regions;
  const auto k = bind_one<View<const K>>(in(keys, where), stream, where, operation, region);
  const auto v = bind_one<View<const V>>(in(values, where), stream, where, operation, region);
  const auto u = bind_one<View<K>>(out(unique, where), stream, where, operation, region);
  const auto s = bind_one<View<V>>(out(sums, where), stream, where, operation, region);
  const auto c = bind_one<View<N>>(out(count, where), stream, where, operation, region);
  const ReduceByKeyWork<K, V, N, Op> work{
      k.data(), v.data(), u.data(), s.data(), c.data(), static_cast<std::int64_t>(k.size()), op};
  return run_device_algorithm(work, "reduce by key", operation, regions, stream, where);
}

}  // namespace detail
}  // namespace weir

#endif
