// Launches: kernels over 1 to 4 dimensions, and cooperative kernels over blocks, with explicit arguments.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <type_traits>

#include <weir/array.hpp>
#include <weir/detail/arguments.hpp>
#include <weir/detail/kernel_call.hpp>
#include <weir/kernel.hpp>
#include <weir/op.hpp>
#include <weir/stream.hpp>

namespace weir {

/// The size of a launch and what else one may say about it.
struct Extent {
  Shape size;
  std::uint32_t block = 0;     ///< threads per block, 1 to 1024; 0: chosen. The CPU splits by time instead
  const char* name = nullptr;  ///< for messages and tools: a literal, or text that outlives the work
};

/// An Extent from `n`, `{rows, cols, ...}` or an Extent, with the user's line. Made implicitly.
class ExtentArg {
 public:
  template <std::integral A>
  ExtentArg(A a, SourceLocation w = SourceLocation::current()) : extent{Shape(a)}, where(w) {}
  template <std::integral A, std::integral B>
  ExtentArg(A a, B b, SourceLocation w = SourceLocation::current()) : extent{Shape(a, b)}, where(w) {}
  template <std::integral A, std::integral B, std::integral C>
  ExtentArg(A a, B b, C c, SourceLocation w = SourceLocation::current()) : extent{Shape(a, b, c)}, where(w) {}
  template <std::integral A, std::integral B, std::integral C, std::integral D>
  ExtentArg(A a, B b, C c, D d, SourceLocation w = SourceLocation::current()) : extent{Shape(a, b, c, d)}, where(w) {}
  ExtentArg(const Shape& shape, SourceLocation w = SourceLocation::current()) : extent{shape}, where(w) {}
  ExtentArg(const Extent& e, SourceLocation w = SourceLocation::current()) : extent(e), where(w) {}

  Extent extent;
  SourceLocation where;
};

/// An Extent in braces that name its members, `{.size = n, .name = "left"}`, where `{8, 256}` has two dimensions.
struct NamedExtent {
  class Named {
   public:
    constexpr Named() {}
  };
  Named named = {};
  Shape size;
  std::uint32_t block = 0;
  const char* name = nullptr;
  SourceLocation where = SourceLocation::current();

  /// The same as an Extent with the user's line.
  ExtentArg extent() const { return ExtentArg(Extent{size, block, name}, where); }
};

/// The size of a cooperative launch. Blocks and threads have 1 to 3 dimensions each: `{.blocks = {8, 8}, .threads = {16, 16}}`.
struct BlockExtent {
  Shape blocks;                  ///< at least 1
  Shape threads;                 ///< of each block, 1 to 1024 in all
  std::size_t shared_bytes = 0;  ///< of each block; at most Device::properties().max_shared_bytes_per_block
  const char* name = nullptr;

  /// As many blocks of these threads as cover `size` elements: `BlockExtent::over({rows, cols}, {16, 16})`. In the last of
  /// each dimension threads may have no element: the kernel asks. Missing dimensions of either are 1, and come first.
  static constexpr BlockExtent over(const Shape& size, const Shape& threads, std::size_t shared_bytes = 0,
                                    const char* name = nullptr) {
    const std::size_t rank = size.rank() > threads.rank() ? size.rank() : threads.rank();
    std::size_t sizes[max_rank], of_block[max_rank], blocks[max_rank];
    for (std::size_t d = 0; d < rank; ++d) {
      sizes[d] = d + size.rank() < rank ? 1 : size[d + size.rank() - rank];
      of_block[d] = d + threads.rank() < rank ? 1 : threads[d + threads.rank() - rank];
      const bool even = of_block[d] == 0 || sizes[d] % of_block[d] == 0;
      blocks[d] = (of_block[d] == 0 ? sizes[d] : sizes[d] / of_block[d]) + (even ? 0 : 1);
    }
    return {Shape::of(rank, blocks), Shape::of(rank, of_block), shared_bytes, name};
  }
};

/// A BlockExtent with the user's line, for calls without a stream. Made implicitly.
class BlockExtentArg {
 public:
  BlockExtentArg(const BlockExtent& e, SourceLocation w = SourceLocation::current()) : extent(e), where(w) {}

  BlockExtent extent;
  SourceLocation where;
};
/// The same written in braces: `{.blocks = 8, .threads = 256}`.
struct BlockExtentHere {
  Shape blocks;
  Shape threads;
  std::size_t shared_bytes = 0;
  const char* name = nullptr;
  SourceLocation where = SourceLocation::current();

  /// The same as a BlockExtent.
  BlockExtent extent() const { return {blocks, threads, shared_bytes, name}; }
};
/// The same with its members named, where `{8, 256}` is an Extent of two dimensions.
struct NamedBlockExtent {
  class Named {
   public:
    constexpr Named() {}
  };
  Named named = {};
  Shape blocks;
  Shape threads;
  std::size_t shared_bytes = 0;
  const char* name = nullptr;

  /// The same as a BlockExtent.
  BlockExtent extent() const { return {blocks, threads, shared_bytes, name}; }
};

namespace detail {

inline constexpr std::size_t most_plain_size = std::numeric_limits<std::size_t>::max() / 2;

template <class F>
constexpr KernelName kernel_name() {
  return {type_name<F>(), !CallParameters<F>::known};
}

/// An extent in braces shows its rank when it is compiled, and what a kernel's index stands for if it is `auto`.
template <std::size_t N, class F, class... A>
constexpr bool runs_over() {
  constexpr bool fits = rank_of_kernel<F, A...>() == N;
  static_assert(fits,
                "a kernel whose index is auto runs over one dimension: declare it weir::Index<R> for R dimensions");
  return fits;
}
template <std::integral I, std::size_t N>
constexpr Shape shape_of(const I (&extent)[N]) {
  std::size_t sizes[N];
  for (std::size_t d = 0; d < N; ++d) sizes[d] = to_size(extent[d]);
  return Shape::of(N, sizes);
}
template <class F>
concept index_is_auto = !CallParameters<std::decay_t<F>>::known;

/// What a call without sizes may have in their place. Anything else is no call of Weir's: other functions have its name, too.
template <class E>
concept may_be_kernel = std::is_class_v<std::remove_cvref_t<E>> || std::is_floating_point_v<std::remove_cvref_t<E>> ||
    std::is_function_v<std::remove_pointer_t<std::remove_cvref_t<E>>>;

template <class F, class... A>
void launch(StreamRef stream, const Extent& extent, SourceLocation where, F&& kernel, A&&... arguments) {
  using Functor = std::decay_t<F>;
  check_kernel<Functor>();
  constexpr std::size_t rank = rank_of_kernel<Functor, A&&...>();
  using Indices = std::index_sequence_for<A...>;
  using Binding = BindingOf<Functor, rank, Indices, A&&...>;
  using C = typename Binding::closure;
  using First = std::conditional_t<rank == 1, std::size_t, Index<rank>>;
  if constexpr (CallCheck<Binding, First>::check()) {
    check_function(kernel, "weir::launch", "kernel", where);
    constexpr std::size_t most =
        greatest_index<Functor>() < most_plain_size ? greatest_index<Functor>() + 1 : most_plain_size;
    const bool plain = rank == 1 && extent.size.rank() == 1 && extent.size[0] - 1 < most && extent.block == 0 &&
                       extent.name == nullptr;
    if (!plain && !check_extent(extent.size, rank, extent.block, kernel_name<Functor>(), where)) return;
    if constexpr (most < most_plain_size) {
      if (!plain && extent.size[0] > most) refuse_index(extent.size[0], most, kernel_name<Functor>(), where);
    }
    constexpr std::size_t count = (0 + ... + regions_of<A>);
    Region regions[count == 0 ? 1 : count];
    const StoredClosure<C> stored{Binder<C, Indices, A...>::bind(
        static_cast<F&&>(kernel), stream, where, "weir::launch", regions, static_cast<A&&>(arguments)...)};
    constexpr const Kernel& code = element_kernel<C, Functor, rank, ThisCompiler>;
    if (plain) {
      submit_plain_launch<closure_copy_kind<C>>(stream, code, &stored.closure, extent.size[0],
                                                LaunchSite{where, count == 0 ? nullptr : regions});
    } else {
      Command command{0, 0, where, std::span<const Region>(regions, count),
                      Launch{&code, &stored.closure, extent.size, extent.block, 0, 0, extent.name}};
      submit(stream, command, "weir::launch");
    }
  }
}

template <class F, class... A>
void launch_blocks(StreamRef stream, const BlockExtent& extent, SourceLocation where, F&& kernel, A&&... arguments) {
  using Functor = std::decay_t<F>;
  check_kernel<Functor>();
  using Indices = std::index_sequence_for<A...>;
  using Binding = BindingOf<Functor, 1, Indices, A&&...>;
  using C = typename Binding::closure;
  if constexpr (CallCheck<Binding, Block&>::check()) {
    check_function(kernel, "weir::launch_blocks", "kernel", where);
    check_blocks(stream, extent, where);
    constexpr std::size_t count = (0 + ... + regions_of<A>);
    Region regions[count == 0 ? 1 : count];
    const C closure = Binder<C, Indices, A...>::bind(static_cast<F&&>(kernel), stream, where, "weir::launch_blocks",
                                                     regions, static_cast<A&&>(arguments)...);
    Command command{
        0, 0, where, std::span<const Region>(regions, count),
        Launch{&block_kernel<C, Functor, ThisCompiler>, &closure, extent.blocks, 0,
               static_cast<std::uint32_t>(extent.threads.count()), extent.shared_bytes, extent.name, extent.threads}};
    submit(stream, command, "weir::launch_blocks");
  }
}

}  // namespace detail

/// Runs `kernel(index, arguments...)` for every index of `extent`, in the order of `stream`. Asynchronous (W1, R1).
/// index is std::size_t in one dimension, or the integer type that the kernel declares, and weir::Index<R> in R. Arguments
/// are taken by value as given; arrays as in(x), out(x) or inout(x), or a const array alone for in. The kernel is copied;
/// its call operator is const.
/// An extent of 0 launches nothing. Elements run in any order, in parallel: none may wait for another.
/// If the kernel throws, later commands of the stream are skipped, and the next synchronisation of the stream throws
/// Error(kernel_failed). Throws wrong_shape, wrong_device, wrong_memory, null_view, misaligned, size_overflow.
template <class F, class... A>
void launch(StreamArg stream, ExtentArg extent, F&& kernel, A&&... arguments) {
  detail::launch(stream.stream, extent.extent, stream.where, static_cast<F&&>(kernel), static_cast<A&&>(arguments)...);
}
template <class F, class... A>
void launch(StreamArg stream, const NamedExtent& extent, F&& kernel, A&&... arguments) {
  detail::launch(stream.stream, extent.extent().extent, stream.where, static_cast<F&&>(kernel),
                 static_cast<A&&>(arguments)...);
}
template <std::integral I, std::size_t N, detail::index_is_auto F, class... A>
  requires(N > 1 && N <= max_rank)
void launch(StreamArg stream, const I (&extent)[N], F&& kernel, A&&... arguments) {
  if constexpr (detail::runs_over<N, std::decay_t<F>, A&&...>()) {
    detail::launch(stream.stream, Extent{detail::shape_of(extent)}, stream.where, static_cast<F&&>(kernel),
                   static_cast<A&&>(arguments)...);
  }
}
template <class E, class... A>
  requires(!std::is_convertible_v<E, ExtentArg> && detail::may_be_kernel<E>)
void launch(StreamArg, E&&, A&&...) {
  static_assert(std::is_convertible_v<E, ExtentArg>,
                "weir::launch needs how many elements there are, before the kernel: weir::launch(stream, n, kernel, "
                "arguments...), or {rows, columns} for n");
}
template <std::integral I, std::size_t N, class F, class... A>
  requires(N > max_rank)
void launch(StreamArg, const I (&)[N], F&&, A&&...) {
  static_assert(N <= max_rank, "a launch has at most four dimensions");
}
template <class None = void>
void launch(StreamArg, ExtentArg) {
  static_assert(!std::is_same_v<None, None>,
                "weir::launch needs a kernel behind the size: weir::launch(stream, n, kernel, arguments...)");
}
template <class F>
  requires(!std::is_convertible_v<const F&, StreamArg> && !std::is_convertible_v<const F&, ExtentArg> &&
           (std::is_class_v<F> || std::is_function_v<F>))
void launch(const F&, StreamArg, ...) {
  static_assert(!std::is_same_v<F, F>, "the stream comes first: weir::launch(stream, n, kernel, arguments...)");
}
template <std::floating_point N, class F, class... A>
  requires detail::may_be_kernel<F>
void launch(N, F&&, A&&...) {
  static_assert(!std::is_same_v<N, N>, "sizes are whole numbers: convert them yourself, as with std::size_t(n)");
}
/// On the current stream of the default device.
template <class F, class... A>
  requires(!std::is_convertible_v<F, ExtentArg>)
void launch(ExtentArg extent, F&& kernel, A&&... arguments) {
  detail::launch(get_stream(extent.where), extent.extent, extent.where, static_cast<F&&>(kernel),
                 static_cast<A&&>(arguments)...);
}

template <class F, class... A>
  requires(!std::is_convertible_v<F, ExtentArg>)
void launch(const NamedExtent& extent, F&& kernel, A&&... arguments) {
  launch(extent.extent(), static_cast<F&&>(kernel), static_cast<A&&>(arguments)...);
}

/// Runs `kernel(block, arguments...)` for every block: threads that share memory and go on in phases (weir::Block).
/// Blocks run in any order, in parallel. Throws invalid_value for a size out of range (R168), else as launch.
template <class F, class... A>
void launch_blocks(StreamArg stream, const BlockExtent& extent, F&& kernel, A&&... arguments) {
  detail::launch_blocks(stream.stream, extent, stream.where, static_cast<F&&>(kernel), static_cast<A&&>(arguments)...);
}
template <class None = void>
void launch_blocks(StreamArg, const BlockExtent&) {
  static_assert(!std::is_same_v<None, None>,
                "weir::launch_blocks needs a kernel behind the blocks: weir::launch_blocks(stream, {.blocks = 8, "
                ".threads = 256}, kernel, arguments...)");
}
template <class E, class... A>
  requires(!std::is_convertible_v<E, BlockExtent> &&
           (detail::may_be_kernel<E> || std::is_integral_v<std::remove_cvref_t<E>>))
void launch_blocks(StreamArg, E&&, A&&...) {
  static_assert(
      std::is_convertible_v<E, BlockExtent>,
      "weir::launch_blocks needs its blocks and their threads, before the kernel: weir::launch_blocks(stream, "
      "{.blocks = 8, .threads = 256}, kernel, arguments...)");
}
/// On the current stream of the default device.
template <class F, class... A>
  requires(!std::is_convertible_v<F, BlockExtent>)
void launch_blocks(BlockExtentArg extent, F&& kernel, A&&... arguments) {
  detail::launch_blocks(get_stream(extent.where), extent.extent, extent.where, static_cast<F&&>(kernel),
                        static_cast<A&&>(arguments)...);
}
template <class F, class... A>
  requires(!std::is_convertible_v<F, BlockExtent>)
void launch_blocks(const BlockExtentHere& extent, F&& kernel, A&&... arguments) {
  launch_blocks(BlockExtentArg(extent.extent(), extent.where), static_cast<F&&>(kernel),
                static_cast<A&&>(arguments)...);
}

}  // namespace weir
