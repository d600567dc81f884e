// The names of errors, as they are written in weir::Errc.
#include <weir/scenario.hpp>

namespace weir {

std::string_view name_of(Errc code) noexcept {
  switch (code) {
    case Errc::invalid_value: return "invalid_value";
    case Errc::unknown_device: return "unknown_device";
    case Errc::invalid_handle: return "invalid_handle";
    case Errc::not_ready: return "not_ready";
    case Errc::out_of_memory: return "out_of_memory";
    case Errc::size_overflow: return "size_overflow";
    case Errc::wrong_device: return "wrong_device";
    case Errc::wrong_memory: return "wrong_memory";
    case Errc::wrong_shape: return "wrong_shape";
    case Errc::null_view: return "null_view";
    case Errc::misaligned: return "misaligned";
    case Errc::overlapping: return "overlapping";
    case Errc::already_freed: return "already_freed";
    case Errc::already_pinned: return "already_pinned";
    case Errc::not_pinned: return "not_pinned";
    case Errc::peer_already_enabled: return "peer_already_enabled";
    case Errc::peer_not_enabled: return "peer_not_enabled";
    case Errc::peer_unsupported: return "peer_unsupported";
    case Errc::not_permitted: return "not_permitted";
    case Errc::not_supported: return "not_supported";
    case Errc::kernel_failed: return "kernel_failed";
    case Errc::host_function_failed: return "host_function_failed";
    case Errc::device_failed: return "device_failed";
    case Errc::process_forked: return "process_forked";
    case Errc::process_exiting: return "process_exiting";
    case Errc::capture_unsupported: return "capture_unsupported";
    case Errc::capture_invalidated: return "capture_invalidated";
    case Errc::capture_merge: return "capture_merge";
    case Errc::capture_unmatched: return "capture_unmatched";
    case Errc::capture_unjoined: return "capture_unjoined";
    case Errc::capture_isolation: return "capture_isolation";
    case Errc::capture_implicit: return "capture_implicit";
    case Errc::capture_wrong_thread: return "capture_wrong_thread";
    case Errc::captured_event: return "captured_event";
    case Errc::not_capturing: return "not_capturing";
    case Errc::graph_cycle: return "graph_cycle";
    case Errc::not_a_graph_file: return "not_a_graph_file";
    case Errc::hazard: return "hazard";
    case Errc::rank_failed: return "rank_failed";
    case Errc::collective_timeout: return "collective_timeout";
    case Errc::collective_mismatch: return "collective_mismatch";
    case Errc::exporter_gone: return "exporter_gone";
    case Errc::out_of_bounds: return "out_of_bounds";
  }
  return "unknown";
}

}  // namespace weir
