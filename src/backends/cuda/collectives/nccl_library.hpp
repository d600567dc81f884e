// NCCL as it is called here: a few calls of libnccl.so.2, which is opened when the first communicator of GPUs is made, so that
// neither building nor running without it needs it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

namespace weir::cuda {

struct NcclCommunicator;  ///< NCCL's own

enum class NcclResult : int { success = 0, in_progress = 7 };
enum class NcclType : int { i8 = 0, u8 = 1, i32 = 2, u32 = 3, i64 = 4, u64 = 5, f16 = 6, f32 = 7, f64 = 8, bf16 = 9 };
enum class NcclOperation : int { sum = 0, product = 1, maximum = 2, minimum = 3, average = 4 };

/// What the ranks of several processes make a communicator of.
struct NcclUniqueId {
  char bytes[128];
};

/// Its calls, by their names without "nccl".
struct NcclLibrary {
  using Comm = NcclCommunicator*;

  std::string why_absent;  ///< empty: it is there

  NcclResult (*CommInitAll)(Comm* made, int count, const int* devices) = nullptr;
  NcclResult (*GetVersion)(int* version) = nullptr;
  NcclResult (*GetUniqueId)(NcclUniqueId* made) = nullptr;
  NcclResult (*CommInitRank)(Comm* made, int size, NcclUniqueId id, int rank) = nullptr;
  NcclResult (*CommAbort)(Comm) = nullptr;
  NcclResult (*CommRevoke)(Comm, int flags) = nullptr;  ///< null before 2.28.9
  NcclResult (*CommDestroy)(Comm) = nullptr;
  NcclResult (*CommGetAsyncError)(Comm, NcclResult* error) = nullptr;
  const char* (*GetErrorString)(NcclResult) = nullptr;
  NcclResult (*GroupStart)() = nullptr;
  NcclResult (*GroupEnd)() = nullptr;
  NcclResult (*AllReduce)(const void* from, void* to, std::size_t count, NcclType, NcclOperation, Comm,
                          cudaStream_t) = nullptr;
  NcclResult (*Broadcast)(const void* from, void* to, std::size_t count, NcclType, int root, Comm,
                          cudaStream_t) = nullptr;
  NcclResult (*Reduce)(const void* from, void* to, std::size_t count, NcclType, NcclOperation, int root, Comm,
                       cudaStream_t) = nullptr;
  NcclResult (*AllGather)(const void* from, void* to, std::size_t count, NcclType, Comm, cudaStream_t) = nullptr;
  NcclResult (*ReduceScatter)(const void* from, void* to, std::size_t count, NcclType, NcclOperation, Comm,
                              cudaStream_t) = nullptr;
  NcclResult (*Send)(const void* from, std::size_t count, NcclType, int peer, Comm, cudaStream_t) = nullptr;
  NcclResult (*Recv)(void* to, std::size_t count, NcclType, int peer, Comm, cudaStream_t) = nullptr;
};

/// Opens a library; where it is not there, or too old, the result says why.
NcclLibrary open_nccl(const char* file);
/// The one of this process: libnccl.so.2, or what WEIR_NCCL names. Opened by the first call.
const NcclLibrary& nccl();

}  // namespace weir::cuda
