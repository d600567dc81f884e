// Errors: their category, and how what() reads.
#include <weir/error.hpp>

#include <cstddef>
#include <string>
#include <string_view>

#include "json/text.hpp"

namespace weir {

namespace {

const char* text_of(Errc code) {
  switch (code) {
    case Errc::invalid_value: return "invalid value";
    case Errc::unknown_device: return "unknown device";
    case Errc::invalid_handle: return "invalid handle";
    case Errc::not_ready: return "not ready";
    case Errc::out_of_memory: return "out of memory";
    case Errc::size_overflow: return "size overflow";
    case Errc::wrong_device: return "wrong device";
    case Errc::wrong_memory: return "wrong memory";
    case Errc::wrong_shape: return "wrong shape";
    case Errc::null_view: return "null view";
    case Errc::misaligned: return "misaligned address";
    case Errc::overlapping: return "overlapping memory";
    case Errc::already_freed: return "already freed";
    case Errc::already_pinned: return "already pinned";
    case Errc::not_pinned: return "not pinned";
    case Errc::peer_already_enabled: return "peer access already enabled";
    case Errc::peer_not_enabled: return "peer access not enabled";
    case Errc::peer_unsupported: return "peer access unsupported";
    case Errc::not_permitted: return "not permitted";
    case Errc::not_supported: return "not supported";
    case Errc::kernel_failed: return "kernel failed";
    case Errc::host_function_failed: return "host function failed";
    case Errc::device_failed: return "device failed";
    case Errc::process_forked: return "process forked";
    case Errc::process_exiting: return "process exiting";
    case Errc::capture_unsupported: return "not supported during capture";
    case Errc::capture_invalidated: return "capture invalidated";
    case Errc::capture_merge: return "captures would merge";
    case Errc::capture_unmatched: return "capture ended on another stream";
    case Errc::capture_unjoined: return "capture not joined";
    case Errc::capture_isolation: return "wait from outside of the capture";
    case Errc::capture_implicit: return "legacy stream during capture";
    case Errc::capture_wrong_thread: return "capture ended by another thread";
    case Errc::captured_event: return "event recorded in a capture";
    case Errc::not_capturing: return "not capturing";
    case Errc::graph_cycle: return "cycle in a graph";
    case Errc::not_a_graph_file: return "not a graph file";
    case Errc::hazard: return "hazard";
    case Errc::rank_failed: return "a rank failed";
    case Errc::collective_timeout: return "ranks did not come in time";
    case Errc::collective_mismatch: return "different collectives";
    case Errc::exporter_gone: return "exporting process gone";
    case Errc::out_of_bounds: return "out of bounds";
  }
  return "unknown error";
}

class Category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "weir"; }
  std::string message(int code) const override { return text_of(static_cast<Errc>(code)); }
};

/// A message has lines of its own, as those of tables.
std::string lines_shown(std::string_view text) {
  std::string made;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    made += json::shown(text.substr(0, end)) + '\n';
    text.remove_prefix(end + 1);
  }
  return made + json::shown(text);
}

/// Names are the program's, or another one's: whoever prints what() does not have a terminal obey them.
std::string compose(const std::string& operation, const std::string& object, const std::string& message,
                    SourceLocation where) {
  std::string text = json::shown(operation) + ": " + json::shown(object) + ": " + lines_shown(message);
  if (where) text += " [" + json::shown(where.file_name()) + ":" + std::to_string(where.line()) + "]";
  return text;
}

}  // namespace

const std::error_category& error_category() noexcept {
  static const Category category;
  return category;
}

Error::Error(Errc code, std::string operation, std::string object, const std::string& message, SourceLocation where,
             std::exception_ptr cause)
    : std::system_error(make_error_code(code), compose(operation, object, message, where)),
      details_(new Details(std::move(operation), std::move(object), message, where, std::move(cause))) {}

Error Error::of_call(std::string operation) const {
  return Error(errc(), std::move(operation), object(), details_->message, where(), cause());
}

}  // namespace weir
