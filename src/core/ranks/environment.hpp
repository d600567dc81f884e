// Ranks that a launcher's environment describes.
#pragma once

#include <memory>

#include <weir/collectives.hpp>

#include "core/ranks/engine.hpp"

namespace weir::detail {

/// Whether `weir ranks`, torchrun, or who does as they do, started this process as one of several.
bool has_job_in_environment();
/// This process's rank. Waits until all have come. Throws collective_timeout, invalid_value.
Communicator make_from_environment(Device device, const CommunicatorOptions& options, const char* operation,
                                   SourceLocation where);

}  // namespace weir::detail
