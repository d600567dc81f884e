// NCCL called by hand, for the counterparts.
#pragma once

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace bench {

/// NCCL's calls, as its header has them.
struct RawNccl {
  using Comm = void*;
  static constexpr int type_f32 = 7;
  static constexpr int sum = 0;
  struct UniqueId {
    char bytes[128];
  };

  int (*init_all)(Comm*, int, const int*) = nullptr;
  int (*get_unique_id)(UniqueId*) = nullptr;
  int (*init_rank)(Comm*, int, UniqueId, int) = nullptr;
  int (*destroy)(Comm) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_reduce)(const void*, void*, std::size_t, int, int, Comm, cudaStream_t) = nullptr;
  int (*all_gather)(const void*, void*, std::size_t, int, Comm, cudaStream_t) = nullptr;

  /// Why it is not there; empty if it is.
  std::string open() {
    void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return "needs NCCL: libnccl.so.2 is not here";
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    };
    find(init_all, "ncclCommInitAll");
    find(get_unique_id, "ncclGetUniqueId");
    find(init_rank, "ncclCommInitRank");
    find(destroy, "ncclCommDestroy");
    find(group_start, "ncclGroupStart");
    find(group_end, "ncclGroupEnd");
    find(all_reduce, "ncclAllReduce");
    find(all_gather, "ncclAllGather");
    return {};
  }
};

inline void check_nccl(int answer, const char* call) {
  if (answer != 0) throw std::runtime_error(std::string(call) + ": " + std::to_string(answer));
}

}  // namespace bench
