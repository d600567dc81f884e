// What goes wrong: one exception type, with a code, the call, the object and the user's line.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <weir/detail/shared.hpp>
#include <weir/source_location.hpp>

namespace weir {

/// Every reason for a weir::Error. The comment names the CUDA answer that it stands for, where there is one.
enum class Errc {
  invalid_value = 1,     ///< a size, limit or option that makes no sense (cudaErrorInvalidValue)
  unknown_device,        ///< no device of that name or number (cudaErrorInvalidDevice)
  invalid_handle,        ///< an object that was moved from, closed or never recorded (cudaErrorInvalidResourceHandle)
  not_ready,             ///< the work asked about is not finished (cudaErrorNotReady)
  out_of_memory,         ///< no memory left on the device, in the pool or on the host (cudaErrorMemoryAllocation)
  size_overflow,         ///< a size that is negative or exceeds what can be addressed
  wrong_device,          ///< objects of different devices where one device is needed
  wrong_memory,          ///< memory of a kind that the device cannot reach (cudaErrorIllegalAddress, before it happens)
  wrong_shape,           ///< shapes, ranks or sizes that do not fit together
  null_view,             ///< a view without memory but with elements
  misaligned,            ///< an address not aligned for its element type (cudaErrorMisalignedAddress)
  overlapping,           ///< source and destination of a copy share memory
  already_freed,         ///< memory given back twice, or used after it was given back
  already_pinned,        ///< host memory pinned already (cudaErrorHostMemoryAlreadyRegistered)
  not_pinned,            ///< host memory that was not pinned (cudaErrorHostMemoryNotRegistered)
  peer_already_enabled,  ///< cudaErrorPeerAccessAlreadyEnabled
  peer_not_enabled,      ///< cudaErrorPeerAccessNotEnabled
  peer_unsupported,      ///< cudaErrorPeerAccessUnsupported
  not_permitted,         ///< a Weir call inside a host function or a kernel (cudaErrorNotPermitted)
  not_supported,         ///< this backend or build cannot do it
  kernel_failed,         ///< a kernel threw; cause() holds its exception
  host_function_failed,  ///< a host function threw; cause() holds its exception
  device_failed,         ///< the device reported an error that the process cannot recover from
  process_forked,        ///< the library was used before fork and called again in the child
  process_exiting,       ///< work that can no longer finish because the process is ending
  capture_unsupported,   ///< a call that a capture forbids (cudaErrorStreamCaptureUnsupported)
  capture_invalidated,   ///< the capture had an error before and is discarded (cudaErrorStreamCaptureInvalidated)
  capture_merge,         ///< a wait that would join two captures (cudaErrorStreamCaptureMerge)
  capture_unmatched,     ///< a capture ended on another stream than it began on (cudaErrorStreamCaptureUnmatched)
  capture_unjoined,      ///< a stream that joined the capture was not joined back (cudaErrorStreamCaptureUnjoined)
  capture_isolation,     ///< a wait for work from outside of the capture (cudaErrorStreamCaptureIsolation)
  capture_implicit,      ///< the legacy stream while a blocking stream captures (cudaErrorStreamCaptureImplicit)
  capture_wrong_thread,  ///< a capture ended by another thread than began it (cudaErrorStreamCaptureWrongThread)
  captured_event,        ///< asking about an event whose last record was captured (cudaErrorCapturedEvent)
  not_capturing,         ///< ending a capture where there is none (cudaErrorIllegalState)
  graph_cycle,           ///< nodes that would wait for each other
  not_a_graph_file,      ///< a file that holds no graph, or a damaged one
  hazard,                ///< a checker refused work that is not ordered with other work on the same memory
  rank_failed,           ///< a collective that another rank cannot take part in any more
  collective_timeout,    ///< a collective whose other ranks did not come in time
  collective_mismatch,   ///< ranks of a communicator that called different collectives
  exporter_gone,         ///< memory or an event of another process that has ended, or does not answer
  out_of_bounds,         ///< an index or slice that a view or array does not have: in checked builds (WEIR_CHECKED)
};

/// The category of weir::Errc, so that `code == weir::Errc::not_ready` compiles.
const std::error_category& error_category() noexcept;
inline std::error_code make_error_code(Errc code) noexcept { return {static_cast<int>(code), error_category()}; }

/// What every failing call throws. what() reads "operation: object: message [file:line]".
/// Copying is cheap and does not throw. Thread rule: immutable, any thread.
class Error : public std::system_error {
 public:
  /// The pieces of an error; `where` is the user's line, `cause` the exception behind a failed kernel or host function.
  Error(Errc code, std::string operation, std::string object, const std::string& message, SourceLocation where,
        std::exception_ptr cause = nullptr);

  Errc errc() const noexcept { return static_cast<Errc>(code().value()); }
  /// The call that failed, or that enqueued what failed later: "weir::launch".
  const std::string& operation() const noexcept { return details_->operation; }
  /// The stream, device, array or kernel it is about.
  const std::string& object() const noexcept { return details_->object; }
  /// The user's line: of the failing call, or, for work that failed later, of the call that enqueued it.
  SourceLocation where() const noexcept { return details_->where; }
  /// The exception that a kernel or host function threw; null otherwise.
  std::exception_ptr cause() const noexcept { return details_->cause; }

  /// For the library: the same of another call, which is made of the one that failed.
  Error of_call(std::string operation) const;

 private:
  struct Details : detail::Counted {
    Details(std::string operation_of, std::string object_of, std::string text, SourceLocation line,
            std::exception_ptr reason)
        : operation(std::move(operation_of)),
          object(std::move(object_of)),
          message(std::move(text)),
          where(line),
          cause(std::move(reason)) {}
    std::string operation;
    std::string object;
    std::string message;
    SourceLocation where;
    std::exception_ptr cause;
  };
  detail::Shared<const Details> details_;
};

namespace detail {

/// Makes a call that is a part of another one: its errors name `operation`, which is what the user wrote.
template <class F>
decltype(auto) in_name_of(const char* operation, F&& part) {
  try {
    return static_cast<F&&>(part)();
  } catch (const Error& error) {
    throw error.of_call(operation);
  }
}

}  // namespace detail

}  // namespace weir

template <>
struct std::is_error_code_enum<weir::Errc> : std::true_type {};
