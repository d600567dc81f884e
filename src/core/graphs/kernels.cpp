// The kernels that files may name.
#include <deque>
#include <string>
#include <type_traits>
#include <utility>

#include <weir/algorithm.hpp>
#include <weir/error.hpp>

#include "core/graphs/file_format.hpp"
#include "core/runtime.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

namespace {

struct Kernels {
  Mutex mutex;
  std::deque<RegisteredKernel> all WEIR_GUARDED_BY(mutex);  ///< entries stay
};

template <class C, class F>
void add_entry(std::deque<RegisteredKernel>& all, const std::string& name) {
  // With GPU code first, if nvcc compiles this file: that one is loaded. Programs save what their own compiler made.
  all.push_back({name, &element_kernel<C, F, 1, ThisCompiler>, &ClosureFormat<C>::write, &ClosureFormat<C>::read});
  if constexpr (!std::is_same_v<ThisCompiler, HostCompiler>) {
    all.push_back({name, &element_kernel<C, F, 1, HostCompiler>, &ClosureFormat<C>::write, &ClosureFormat<C>::read});
  }
}

/// Reductions and scans of the library, for one type and operator.
template <class T, class Op>
void add_algorithms(std::deque<RegisteredKernel>& all, const std::string& suffix) {
  using In = View<const T>;
  using Out = View<T>;
  add_entry<Closure<ReduceChunk<T, Op>, In, Out>, ReduceChunk<T, Op>>(all, "weir.reduce_chunk." + suffix);
  add_entry<Closure<ReduceAll<T, Op>, In, Out>, ReduceAll<T, Op>>(all, "weir.reduce_all." + suffix);
  add_entry<Closure<ScanTotals<T, Op>, Out>, ScanTotals<T, Op>>(all, "weir.scan_totals." + suffix);
  add_entry<Closure<ScanChunk<T, Op>, In, In, Out>, ScanChunk<T, Op>>(all, "weir.scan_chunk." + suffix);
}
template <class T>
void add_type(std::deque<RegisteredKernel>& all, const std::string& type) {
  add_algorithms<T, Plus>(all, type + ".plus");
  add_algorithms<T, Multiplies>(all, type + ".multiplies");
  add_algorithms<T, Minimum>(all, type + ".minimum");
  add_algorithms<T, Maximum>(all, type + ".maximum");
}

Kernels& kernels() {
  static auto& known = *[] {
    auto* made = new Kernels;
    const LockGuard guard(made->mutex);
    add_type<float>(made->all, "float");
    add_type<double>(made->all, "double");
    add_type<std::int32_t>(made->all, "int32");
    add_type<std::int64_t>(made->all, "int64");
    return made;
  }();
  return known;
}

}  // namespace

void add_kernel(RegisteredKernel kernel, SourceLocation where) {
  enter("weir::register_kernel", where);
  Kernels& known = kernels();
  const LockGuard guard(known.mutex);
  for (const RegisteredKernel& one : known.all) {
    if (one.name == kernel.name && one.kernel == kernel.kernel) return;  // by a second library of the program
    if (one.name == kernel.name) {
      throw Error(Errc::invalid_value, "weir::register_kernel", "'" + kernel.name + "'",
                  "another kernel has this name: " + std::string(one.kernel->name), where);
    }
  }
  known.all.push_back(std::move(kernel));
}

const RegisteredKernel* find_kernel(const Kernel& kernel) {
  Kernels& known = kernels();
  const LockGuard guard(known.mutex);
  for (const RegisteredKernel& one : known.all) {
    if (one.kernel == &kernel) return &one;
  }
  return nullptr;
}

const RegisteredKernel* find_kernel(std::string_view name) {
  Kernels& known = kernels();
  const LockGuard guard(known.mutex);
  for (const RegisteredKernel& one : known.all) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

}  // namespace weir::detail
