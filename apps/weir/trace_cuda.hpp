// `weir trace --cuda`: any program that uses CUDA.
#pragma once

#include <string>
#include <vector>

#include "exit.hpp"

namespace tool {

struct CudaTraceOptions {
  std::string output;
  bool graph_nodes = false;  ///< each node of a graph by itself
};

/// Starts the program with Weir's library beside it, which the CUDA driver loads. Returns its exit code. Throws UsageError
/// where the file cannot be written, and std::runtime_error where nothing was recorded.
Exit trace_cuda(const std::vector<std::string>& program, const CudaTraceOptions& options);

}  // namespace tool
