// A kernel as the fake driver knows it: code of the host, and the sizes of its parameters.
#pragma once

#include <cstddef>

namespace fake_cuda {

struct Dimensions {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
};

}  // namespace fake_cuda

/// CUfunction points to one, and so does what cudaLaunchKernel takes for a function.
struct CUfunc_st {
  const char* name;
  std::size_t count;
  std::size_t sizes[4];
  /// Runs the whole grid; throws where the kernel would trap.
  void (*run)(const fake_cuda::Dimensions& dimensions, void** arguments);
};
