// Host functions in streams, and work of foreign libraries.
#pragma once

#include <span>
#include <type_traits>
#include <utility>

#include <weir/detail/arguments.hpp>
#include <weir/op.hpp>
#include <weir/stream.hpp>

namespace weir {

/// What foreign work gets: the stream's native handle, convertible to its type (cudaStream_t); null on the CPU, where the
/// function itself is the work.
struct NativeStream {
  void* handle = nullptr;
  template <class Handle>
    requires std::is_pointer_v<Handle>
  operator Handle() const { return static_cast<Handle>(handle); }
};

namespace detail {

/// A callable that a queue owns, calls at most once, and destroys.
class HostFunction {
 public:
  virtual ~HostFunction() = default;
  virtual void call(NativeStream stream) = 0;

  CommandId command = 0;  ///< as observers were told
};
/// What this thread is calling.
extern constinit thread_local const HostFunction* running_function;

template <class F>
class OwnedFunction final : public HostFunction {
 public:
  explicit OwnedFunction(F&& f) : f_(std::move(f)) {}
  explicit OwnedFunction(const F& f) : f_(f) {}
  void call(NativeStream stream) override {
    const Running running(*this);
    if constexpr (std::is_invocable_v<F&>) {
      f_();
    } else {
      f_(stream);
    }
  }

 private:
  struct Running {
    explicit Running(const HostFunction& function) : before(std::exchange(running_function, &function)) {}
    ~Running() { running_function = before; }
    const HostFunction* before;
  };

  F f_;
};

/// Takes the function, which is new.
void submit_host_function(StreamRef stream, HostFunction* function, std::span<const Region> uses, bool external,
                          SourceLocation where);

template <bool external, class F, class... U>
void enqueue_function(StreamRef stream, SourceLocation where, F&& function, const U&... uses) {
  using Function = std::decay_t<F>;
  static_assert(external || std::is_invocable_v<Function&>,
                "weir::host_call needs a function that can be called as function()");
  constexpr const char* operation = external ? "weir::external" : "weir::host_call";
  check_function(function, operation, "function", where);
  Region regions[sizeof...(U) == 0 ? 1 : sizeof...(U)];
  [[maybe_unused]] Region* region = regions;
  (declare_use(uses, stream, where, operation, region), ...);
  submit_host_function(stream, new OwnedFunction<Function>(static_cast<F&&>(function)),
                       std::span<const Region>(regions, sizeof...(U)), external, where);
}

}  // namespace detail

/// Runs `function()` on the host after all earlier work of the stream and before all later (C13, R84, R85). Asynchronous.
/// The function is owned: moved or copied in, destroyed after its call, or unrun if the stream failed before (R90). What it
/// touches may be declared: in(x), out(x), inout(x). Any Weir call inside throws Error(not_permitted). An exception that the
/// function throws becomes the cause of Error(host_function_failed), thrown by the next synchronisation. It may run on any thread.
template <class F, class... U>
void host_call(StreamArg stream, F&& function, const U&... uses) {
  detail::enqueue_function<false>(stream.stream, stream.where, static_cast<F&&>(function), uses...);
}

/// On the current stream of the default device.
template <class F>
  requires(!std::is_convertible_v<F, StreamArg>)
void host_call(F&& function, SourceLocation where = SourceLocation::current()) {
  host_call(StreamArg(get_stream(where), where), static_cast<F&&>(function));
}

/// Work of a foreign library in stream order: on a GPU, `function(native_stream)` is called at once and enqueues its work
/// on that stream; on the CPU it is called in stream order, like a host function. Declare what the work touches.
template <class F, class... U>
void external(StreamArg stream, F&& function, const U&... uses) {
  static_assert(std::is_invocable_v<std::decay_t<F>&, NativeStream>,
                "weir::external needs a function that can be called as function(native_stream)");
  detail::enqueue_function<true>(stream.stream, stream.where, static_cast<F&&>(function), uses...);
}

}  // namespace weir
