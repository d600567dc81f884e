// What a device makes of a kernel: its registers and memory, its largest block, and how many blocks a multiprocessor holds.
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include <weir/block.hpp>
#include <weir/detail/arguments.hpp>
#include <weir/detail/kernel_call.hpp>
#include <weir/device.hpp>
#include <weir/kernel.hpp>

namespace weir {

/// Facts about a kernel on a device. Thread rule: any thread.
class KernelInfo : public KernelFacts {
 public:
  /// Of the functor's type.
  std::string_view name() const { return kernel_->name; }
  /// How many blocks of so many threads each a multiprocessor holds at one time, if their launch asks for `shared_bytes`; 0:
  /// none. On the CPU 1: a worker runs one block at a time. On a simulated device as its profile says, without registers.
  /// Throws invalid_value for sizes that no launch may have.
  std::size_t blocks_per_multiprocessor(std::size_t threads, std::size_t shared_bytes = 0,
                                        SourceLocation where = SourceLocation::current()) const;
  /// The share of a multiprocessor's threads that these blocks fill, 0 to 1. On the CPU 1.
  double occupancy(std::size_t threads, std::size_t shared_bytes = 0,
                   SourceLocation where = SourceLocation::current()) const;

  /// For the library.
  KernelInfo(Device device, const Kernel& kernel, const KernelFacts& facts)
      : KernelFacts(facts), device_(device), kernel_(&kernel) {}

 private:
  Device device_;
  const Kernel* kernel_;
};

/// A device with the user's line. Made implicitly.
class DeviceArg {
 public:
  DeviceArg(Device d, SourceLocation w = SourceLocation::current()) : device(d), where(w) {}

  Device device;
  SourceLocation where;
};

namespace detail {

KernelInfo kernel_info(const DeviceArg& device, const Kernel& kernel);

template <class F, class C, std::size_t R>
constexpr const Kernel& kernel_of() {
  if constexpr (R == 0) {
    return block_kernel<C, F, ThisCompiler>;
  } else {
    return element_kernel<C, F, R, ThisCompiler>;
  }
}

/// The kernel whose arguments have the types that its call operator declares.
template <class F, std::size_t R, std::size_t... I>
constexpr const Kernel& declared_kernel(std::index_sequence<I...>) {
  return kernel_of<F, Closure<F, typename ParameterAt<F, I + 1>::type...>, R>();
}

template <class F>
constexpr bool takes_block() {
  if constexpr (CallParameters<F>::known) {
    if constexpr (CallParameters<F>::count != 0) return std::is_same_v<typename ParameterAt<F, 0>::type, Block>;
  }
  return false;
}

}  // namespace detail

/// What `device` makes of a kernel, for weir::launch or weir::launch_blocks. With arguments, as launches get them: of exactly
/// that launch. Without: of one whose arguments have the types that the kernel declares. Nothing is launched, and no memory
/// is touched. Throws not_supported for a kernel without code for this device. Without arguments no parameter
/// of the kernel may be `auto`.
template <class F, class... A>
KernelInfo kernel_info(DeviceArg device, [[maybe_unused]] const F& kernel, [[maybe_unused]] const A&... arguments) {
  using Functor = std::decay_t<F>;
  detail::check_kernel<Functor>();
  constexpr bool blocks = detail::takes_block<Functor>();
  constexpr std::size_t rank = blocks ? 0 : detail::rank_of_kernel<Functor, const A&...>();
  if constexpr (sizeof...(A) == 0 && detail::CallParameters<Functor>::known) {
    constexpr std::size_t count = detail::CallParameters<Functor>::count;
    static_assert(count != 0, "a kernel takes its index, or its weir::Block&, first");
    if constexpr (count != 0) {  // compilers go on after the sentence, and would count down from 0
      return detail::kernel_info(device, detail::declared_kernel<Functor, rank>(std::make_index_sequence<count - 1>()));
    }
  } else {
    using Binding = detail::BindingOf<Functor, blocks ? 1 : rank, std::index_sequence_for<A...>, const A&...>;
    using First =
        std::conditional_t<blocks, Block&, std::conditional_t<rank == 1, std::size_t, Index<blocks ? 1 : rank>>>;
    if constexpr (detail::CallCheck<Binding, First>::check()) {
      return detail::kernel_info(device, detail::kernel_of<Functor, typename Binding::closure, rank>());
    }
  }
}

}  // namespace weir
