// Finds libnccl.so.2 and its calls.
#include "backends/cuda/collectives/nccl_library.hpp"

#include <dlfcn.h>

#include <cstdlib>

namespace weir::cuda {

namespace {

constexpr const char* usual_file = "libnccl.so.2";

template <class Function>
void find(void* library, Function& function, const char* name, std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr && missing.empty()) missing = name;
}

}  // namespace

NcclLibrary open_nccl(const char* file) {
  NcclLibrary found;
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    found.why_absent =
        "collectives among GPUs need NCCL, and it cannot be opened: " + std::string(why != nullptr ? why : file) +
        "; install NVIDIA's package libnccl2, or the wheel nvidia-nccl-cu12 or -cu13, and let WEIR_NCCL name its "
        "libnccl.so.2";
    return found;
  }
  std::string missing;
  find(library, found.CommInitAll, "ncclCommInitAll", missing);
  find(library, found.GetVersion, "ncclGetVersion", missing);
  find(library, found.GetUniqueId, "ncclGetUniqueId", missing);
  find(library, found.CommInitRank, "ncclCommInitRank", missing);
  find(library, found.CommAbort, "ncclCommAbort", missing);
  find(library, found.CommDestroy, "ncclCommDestroy", missing);
  find(library, found.CommGetAsyncError, "ncclCommGetAsyncError", missing);
  find(library, found.GetErrorString, "ncclGetErrorString", missing);
  find(library, found.GroupStart, "ncclGroupStart", missing);
  find(library, found.GroupEnd, "ncclGroupEnd", missing);
  find(library, found.AllReduce, "ncclAllReduce", missing);
  find(library, found.Broadcast, "ncclBroadcast", missing);
  find(library, found.Reduce, "ncclReduce", missing);
  find(library, found.AllGather, "ncclAllGather", missing);
  find(library, found.ReduceScatter, "ncclReduceScatter", missing);
  find(library, found.Send, "ncclSend", missing);
  find(library, found.Recv, "ncclRecv", missing);
  std::string not_needed;
  find(library, found.CommRevoke, "ncclCommRevoke", not_needed);
  if (!missing.empty()) {
    found.why_absent = std::string(file) + " has no " + missing + ": it is not NCCL, or older than 2.10";
  }
  return found;
}

const NcclLibrary& nccl() {
  static const auto& library = *new NcclLibrary(open_nccl([] {
    const char* const said = std::getenv("WEIR_NCCL");
    return said != nullptr ? said : usual_file;
  }()));
  return library;
}

}  // namespace weir::cuda
