// A callable borrowed for one call: what a test passes to the support library, which is compiled once and not for each.
#pragma once

#include <memory>
#include <type_traits>

namespace weir_test {

/// Refers to a callable without arguments whose result, unless R is void, converts to R. Valid while the callable is.
template <class R>
class FunctionRef {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
  FunctionRef(F&& callable)  // NOLINT(bugprone-forwarding-reference-overload): implicit, as calls are written
      : callable_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object) -> R { return static_cast<R>((*static_cast<std::remove_reference_t<F>*>(object))()); }) {
  }

  R operator()() const { return call_(callable_); }

 private:
  void* callable_;
  R (*call_)(void*);
};

}  // namespace weir_test
