// Calls of the fake NCCL.
#pragma once

#include <cstddef>
#include <vector>

struct FakeComm;

namespace fake_nccl {

enum class Kind { all_reduce, broadcast, reduce, all_gather, reduce_scatter, send, receive };

struct Call {
  Kind kind;
  const void* from;
  void* to;
  std::size_t count;
  int type;  ///< as NCCL numbers them
  int operation;
  int peer;  ///< or root
  int rank;
  int size;
};

/// Sets the rank's kernels free, and frees nothing.
int revoke(FakeComm* comm);

}  // namespace fake_nccl
