// Ranges told to NVIDIA's tools, so that Nsight shows the names that a timeline shows.
#pragma once

#include <string>

namespace weir::trace {

/// Whether a tool that reads NVTX is in the process. Where its header was not there when Weir was built: never.
bool nvtx_listens() noexcept;
/// On this thread, in the domain "Weir"; each push has its pop.
void nvtx_push(const std::string& name) noexcept;
void nvtx_pop() noexcept;

}  // namespace weir::trace
