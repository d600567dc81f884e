// Streams: ordered queues of commands on a device, and the current stream of each device and host thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <weir/detail/shared.hpp>
#include <weir/device.hpp>
#include <weir/event.hpp>
#include <weir/op.hpp>
#include <weir/source_location.hpp>

namespace weir {

class StreamRef;

namespace detail {
struct StreamState;
/// Braces around an event and a stream.
struct EventAndStream {
  EventAndStream(EventRef, StreamRef);
  EventAndStream(StreamRef, EventRef);
};
}  // namespace detail

/// A non-owning handle of a stream; every function takes one. Thread rule: any thread, several at once (R205).
/// Every call throws Error(invalid_handle) for a stream that was moved from or destroyed, and Error(not_permitted) inside a
/// host function or a kernel (C13). Ordering calls never block the host.
class StreamRef {
 public:
  StreamRef() = default;

  StreamId id() const { return id_; }
  /// The device of the stream.
  Device device(SourceLocation where = SourceLocation::current()) const;
  /// As clamped to the device's range (R14).
  int priority(SourceLocation where = SourceLocation::current()) const;
  /// Whether it is ordered with the legacy stream (C8).
  bool blocking(SourceLocation where = SourceLocation::current()) const;
  std::string name(SourceLocation where = SourceLocation::current()) const;

  /// Records `event`: it is reached when all earlier work of this stream is done. Throws wrong_device, naming both, for an event
  /// of another device (W14).
  void record(EventRef event, SourceLocation where = SourceLocation::current()) const;
  /// Records a new event.
  Event record(SourceLocation where = SourceLocation::current()) const;
  TimedEvent record_timed(SourceLocation where = SourceLocation::current()) const;
  /// Later commands of this stream wait for the latest record of `event` before this call (R70, R72), on any device of any backend.
  /// Throws capture_isolation if this stream is captured and the event was not recorded in that capture.
  void wait(EventRef event, SourceLocation where = SourceLocation::current()) const;
  /// Later commands of this stream wait for all earlier work of `other`.
  void wait(StreamRef other, SourceLocation where = SourceLocation::current()) const;
  /// Waits for each of them: `s.wait({a, b})`.
  void wait(std::initializer_list<EventRef> events, SourceLocation where = SourceLocation::current()) const;
  void wait(std::initializer_list<StreamRef> others, SourceLocation where = SourceLocation::current()) const;

  /// Waits for all earlier work of this stream (R7). If a command has failed since the last call, throws its Error (kernel,
  /// stream and the line that launched it); then the stream is usable again.
  void synchronize(SourceLocation where = SourceLocation::current()) const;
  /// Whether all earlier work of this stream is done. Never blocks.
  bool done(SourceLocation where = SourceLocation::current()) const;
  /// The backend's own handle (a cudaStream_t); null on the CPU.
  void* native(SourceLocation where = SourceLocation::current()) const;

  /// Do not compile, and say what to write.
  template <class D>
    requires std::is_same_v<D, Device>
  void wait(const D&) const {
    static_assert(
        !std::is_same_v<D, D>,
        "a weir::Stream waits for streams and events: stream.wait(other_stream); the host waits for a device by "
        "device.synchronize()");
  }
  template <class None = void>
  void wait(const detail::EventAndStream&) const {
    static_assert(!std::is_same_v<None, None>, "stream.wait({...}) takes either events or streams: a call for each");
  }
  template <class None = void>
  bool query() const {
    static_assert(!std::is_same_v<None, None>, "whether a weir::Stream's work is done: stream.done()");
    return false;
  }
  template <class None = void>
  void sync() const {
    static_assert(!std::is_same_v<None, None>, "the host waits for a weir::Stream by stream.synchronize()");
  }

  friend bool operator==(StreamRef a, StreamRef b) { return a.id_ == b.id_; }

  /// For the library.
  StreamRef(detail::StreamState* state, StreamId id) : state_(state), id_(id) {}
  detail::StreamState* state() const { return state_; }

 protected:
  detail::StreamState* state_ = nullptr;
  StreamId id_ = 0;
};

struct StreamOptions {
  int priority = 0;       ///< clamped to Device::properties().stream_priorities; lower numbers first (C14)
  bool blocking = true;   ///< ordered with the legacy stream (C8)
  std::string name = {};  ///< for messages and tools; empty: a generated one
};

/// Owns a stream. Destroying it with work pending returns immediately: the work still runs to its end, and a failure in it is
/// thrown by the device's next synchronisation (C7).
class Stream : public StreamRef {
 public:
  /// On the default device, or on `device`.
  Stream(SourceLocation where = SourceLocation::current());
  explicit Stream(Device device, const StreamOptions& options = {}, SourceLocation where = SourceLocation::current());
  /// On the default device: `weir::Stream s({.name = "copies"})`.
  explicit Stream(const StreamOptions& options, SourceLocation where = SourceLocation::current());
  template <class Name>
    requires std::is_convertible_v<const Name&, std::string_view>
  explicit Stream(const Name&, const StreamOptions& = {}) {
    static_assert(!std::is_same_v<Name, Name>,
                  "weir::Stream takes a weir::Device: weir::Stream(weir::device(\"cpu\")); a stream's own name is "
                  "an option: weir::Stream(device, {.name = ...})");
  }
  template <class Option>
    requires(std::is_arithmetic_v<Option> || std::is_convertible_v<const Option&, std::string_view>)
  Stream(Device, const Option&) {
    static_assert(
        !std::is_same_v<Option, Option>,
        "the options of a weir::Stream have names: weir::Stream(device, {.priority = -1, .name = \"upload\"})");
  }
  Stream(const Stream&) = delete;  // a stream has one owner: std::move(stream), or weir::StreamRef ref = stream
  Stream(Stream&& other) noexcept;
  Stream& operator=(const Stream&) = delete;  // a stream has one owner: std::move(stream), or weir::StreamRef
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

 private:
  friend Stream wrap_stream(Device, void*, SourceLocation);
  explicit Stream(StreamRef ref) : StreamRef(ref) {}
};

/// The device's legacy default stream: its commands wait for all blocking streams, and theirs for it (M2, R18 to R29).
StreamRef legacy_stream(Device device, SourceLocation where = SourceLocation::current());
/// This host thread's default stream on the device: a blocking stream like any other (R21, R22, R202).
StreamRef per_thread_stream(Device device, SourceLocation where = SourceLocation::current());

/// A stream for a foreign native handle, which the caller keeps alive (W10). On CUDA a null handle, which is what other
/// libraries call the default stream, means the legacy default stream. Throws not_supported where the backend has none.
Stream wrap_stream(Device device, void* native_handle, SourceLocation where = SourceLocation::current());

/// The current stream of a device on this host thread (W12): the device's own stream until set_stream. Calls without a
/// stream use it.
StreamRef get_stream(Device device, SourceLocation where = SourceLocation::current());
StreamRef get_stream(SourceLocation where = SourceLocation::current());
/// Makes `stream` current on its device, for this host thread. With a device, throws wrong_device if the stream is of another device.
void set_stream(StreamRef stream, SourceLocation where = SourceLocation::current());
void set_stream(StreamRef stream, Device device, SourceLocation where = SourceLocation::current());

/// Makes a stream and its device current for a block (W11). On entry the stream waits for the previous current one, so
/// that arrays made before are safe to use; on exit the previous stream and device are current again, on exceptions too.
/// The previous stream does not wait for this one on exit.
class ScopedStream {
 public:
  explicit ScopedStream(StreamRef stream, SourceLocation where = SourceLocation::current());
  ~ScopedStream();
  ScopedStream(const ScopedStream&) = delete;
  ScopedStream& operator=(const ScopedStream&) = delete;

 private:
  Device previous_device_;
  StreamRef previous_stream_;
};

/// Synchronises a stream at the end of a block (N1). A failure is thrown by the stream's next synchronize().
class AutoSynchronize {
 public:
  explicit AutoSynchronize(StreamRef stream, SourceLocation where = SourceLocation::current());
  ~AutoSynchronize();
  AutoSynchronize(const AutoSynchronize&) = delete;
  AutoSynchronize& operator=(const AutoSynchronize&) = delete;

 private:
  StreamRef stream_;
  SourceLocation where_;
};

/// What a ScopedTimer passes its time to: whatever can be called as sink(name, time). Not a std::function, whose header takes a
/// tenth of what all of Weir takes to compile.
class TimerSink {
 public:
  TimerSink() = default;
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, TimerSink> &&
             std::is_invocable_v<std::decay_t<F>&, std::string_view, Milliseconds>)
  TimerSink(F&& function) {
    using Function = std::decay_t<F>;
    if constexpr (std::is_pointer_v<Function> || requires { function.operator bool(); }) {
      if (!function) return;
    }
    function_ = detail::Shared<detail::Counted>(new Owned<Function>(static_cast<F&&>(function)));
    call_ = [](detail::Counted* one, std::string_view name, Milliseconds time) {
      static_cast<Owned<Function>*>(one)->function(name, time);
    };
  }

  explicit operator bool() const { return call_ != nullptr; }
  void operator()(std::string_view name, Milliseconds time) const { call_(function_.get(), name, time); }

 private:
  template <class F>
  struct Owned final : detail::Counted {
    template <class G>
    explicit Owned(G&& given) : function(static_cast<G&&>(given)) {}
    F function;
  };

  detail::Shared<detail::Counted> function_;
  void (*call_)(detail::Counted* function, std::string_view name, Milliseconds time) = nullptr;
};

/// Device time of what a block puts on a stream (N4). stop() ends it, waits and returns the time. Without stop(), the
/// destructor does this and passes the time to the sink; the default sink prints "name: 1.234 ms". If the stream has failed,
/// its commands are skipped and the time is taken all the same: the sink gets it, stop() throws the failure, which stays with the stream.
class ScopedTimer {
 public:
  using Sink = TimerSink;
  explicit ScopedTimer(StreamRef stream, std::string name = {}, Sink sink = {},
                       SourceLocation where = SourceLocation::current());
  ~ScopedTimer();
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;
  /// Ends the timer, waits and returns the time.
  Milliseconds stop(SourceLocation where = SourceLocation::current());

 private:
  StreamRef stream_;
  std::string name_;
  Sink sink_;
  TimedEvent start_;
  TimedEvent end_;
  bool running_ = true;
};

/// Named as in Warp; those without a stream act on the current stream of the default device (W14).
void synchronize_stream(StreamRef stream, SourceLocation where = SourceLocation::current());
void record_event(EventRef event, SourceLocation where = SourceLocation::current());
Event record_event(SourceLocation where = SourceLocation::current());
void wait_event(EventRef event, SourceLocation where = SourceLocation::current());
void wait_stream(StreamRef stream, SourceLocation where = SourceLocation::current());

/// The first argument of calls that end in a parameter pack: a stream (or a device: its current stream) and the user's
/// line. Made implicitly.
class StreamArg {
 public:
  StreamArg(StreamRef s, SourceLocation w = SourceLocation::current()) : stream(s), where(w) {}
  StreamArg(Device device, SourceLocation w = SourceLocation::current()) : stream(get_stream(device, w)), where(w) {}

  StreamRef stream;
  SourceLocation where;
};

namespace detail {
[[noreturn]] void refuse_stream(const char* operation, SourceLocation where);

/// Hands a command to the stream's queue, after telling the observers. The hot path of every asynchronous call; `operation`
/// is named in errors. Throws before anything has changed.
void submit(StreamRef stream, Command& command, const char* operation);

/// The first line of a call that is made of others: throws not_permitted or process_forked in the name of the whole.
void check_call(const char* operation, SourceLocation where);

/// What a launch knows besides its kernel and size.
struct LaunchSite {
  SourceLocation where;
  const Region* uses;  ///< as many as the kernel has regions
};
enum class ClosureCopy : std::uint8_t;  // kernel.hpp
/// submit() for the most frequent command, a launch over one dimension without other options. Its arguments are in registers and the
/// way in which the closure is copied is chosen at compile time, so that it costs a few dozen instructions.
template <ClosureCopy kind>
void submit_plain_launch(StreamRef stream, const Kernel& kernel, const void* closure, std::size_t size,
                         const LaunchSite& site);
}  // namespace detail

}  // namespace weir
