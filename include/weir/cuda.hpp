// CUDA's own: launches of __global__ functions on Weir's streams, and its handles. For files that nvcc compiles.
#pragma once

#include <weir/cuda_interop.hpp>
#include <weir/detail/arguments.hpp>
#include <weir/detail/device_code.hpp>
#include <weir/launch.hpp>
#include <weir/stream.hpp>

#if defined(__CUDACC__)

namespace weir {

namespace detail {

/// Submits a call that enqueues work of the driver's own form.
void submit_global(StreamRef stream, const GlobalCall& call, std::span<const Region> uses, const char* name,
                   const char* operation, SourceLocation where);

/// The value that a parameter gets: views and pointers from arrays, everything else converted. F is the function's type.
template <class P, class F, std::size_t number, class A>
P global_argument(A&& argument, StreamRef stream, SourceLocation where, Region*& region) {
  using Plain = std::remove_cvref_t<A>;
  constexpr const char* operation = "weir::cuda::launch";
  if constexpr (regions_of<A> != 0 && is_view<P>) {
    return bind_argument<P, F, number>(static_cast<A&&>(argument), stream, where, operation, region);
  } else if constexpr (is_argument<Plain>) {
    using T = typename decltype(Plain::view)::element_type;
    check_reshape(argument.view.contiguous(), argument.view.size(), argument.view.shape(), where);
    bind_one<AnyView<T>>(argument, stream, where, operation, region);
    return argument.view.data();
  } else if constexpr (array_object<Plain>) {
    return global_argument<P, F, number>(in(argument, where), stream, where, region);
  } else {
    return static_cast<P>(static_cast<A&&>(argument));
  }
}

inline int launch_global_function(const GlobalCall& call, void* stream) {
  const cudaError_t answer = cudaLaunchKernel(call.function, dim3(call.grid[0], call.grid[1], call.grid[2]),
                                              dim3(call.block[0], call.block[1], call.block[2]), call.arguments,
                                              call.shared_bytes, static_cast<cudaStream_t>(stream));
  if (answer != cudaSuccess) static_cast<void>(cudaGetLastError());
  return answer;
}

/// The values of a call's parameters in a graph. What the driver gets is a pointer to each; the one behind them, to all.
template <class Values>
struct KeptArguments;
template <std::size_t... I, class... P>
struct KeptArguments<Slots<std::index_sequence<I...>, P...>> : Slots<std::index_sequence<I...>, P...> {
  using Values = Slots<std::index_sequence<I...>, P...>;

  explicit KeptArguments(const Values& values)
      : Values(values), pointers{&static_cast<Slot<I, P>&>(*this).value..., static_cast<Values*>(this)} {}
  KeptArguments(const KeptArguments&) = delete;

  static void** copy(void** arguments) {
    return (new KeptArguments(*static_cast<const Values*>(arguments[sizeof...(P)])))->pointers;
  }
  static void forget(void** arguments) noexcept {
    delete static_cast<KeptArguments*>(static_cast<Values*>(arguments[sizeof...(P)]));
  }

  void* pointers[sizeof...(P) + 1];
};

template <class... P, std::size_t... I, class... A>
void launch_global(StreamRef stream, SourceLocation where, dim3 grid, dim3 block, std::size_t shared_bytes,
                   void (*function)(P...), std::index_sequence<I...>, A&&... arguments) {
  constexpr std::size_t count = (0 + ... + regions_of<A>);
  Region regions[count == 0 ? 1 : count];
  [[maybe_unused]] Region* region = regions;
  using Values = Slots<std::index_sequence<I...>, std::remove_cv_t<P>...>;
  Values values{Slot<I, std::remove_cv_t<P>>{
      global_argument<std::remove_cv_t<P>, void(P...), I + 1>(static_cast<A&&>(arguments), stream, where, region)}...};
  void* pointers[sizeof...(P) + 1] = {&static_cast<Slot<I, std::remove_cv_t<P>>&>(values).value..., &values};
  const GlobalCall call{reinterpret_cast<const void*>(function),
                        {grid.x, grid.y, grid.z},
                        {block.x, block.y, block.z},
                        shared_bytes,
                        pointers,
                        &launch_global_function,
                        &KeptArguments<Values>::copy,
                        &KeptArguments<Values>::forget,
                        nullptr};
  submit_global(stream, call, std::span<const Region>(regions, count), nullptr, "weir::cuda::launch", where);
}

}  // namespace detail

namespace cuda {

/// `function<<<grid, block, shared_bytes>>>(arguments...)` in the order of `stream`, which is one of a GPU. Asynchronous.
/// Arrays are passed as in(x), out(x) or inout(x), for parameters that are pointers (then they are dense) or weir::View;
/// everything else is converted to the parameter's type. Throws not_supported for a stream of another backend,
/// invalid_value for sizes that the device refuses; wrong_device, wrong_memory and the like as weir::launch.
/// Behind a host function that is still to run, it is not known yet whether that will fail: the function runs all the same.
template <class... P, class... A>
void launch(StreamArg stream, dim3 grid, dim3 block, std::size_t shared_bytes, void (*function)(P...),
            A&&... arguments) {
  static_assert(sizeof...(P) == sizeof...(A),
                "weir::cuda::launch needs as many arguments as the function has parameters");
  if constexpr (sizeof...(P) == sizeof...(A)) {
    detail::launch_global(stream.stream, stream.where, grid, block, shared_bytes, function,
                          std::index_sequence_for<P...>{}, static_cast<A&&>(arguments)...);
  }
}

}  // namespace cuda
}  // namespace weir

#endif
