// A stand-in for libcupti: it hands on the records that a program makes up, as CUPTI would, if their kind is enabled.
// FAKE_CUPTI=refuses: it records no kernels.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <cupti.h>

#include "fake.hpp"

namespace {

std::mutex mutex;
std::set<CUpti_ActivityKind> enabled;
std::vector<std::string> records;  // that nobody has fetched
CUpti_BuffersCallbackRequestFunc want = nullptr;
CUpti_BuffersCallbackCompleteFunc give = nullptr;
bool nvtx_attached = false;

std::size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_RUNTIME: return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_CONTEXT: return sizeof(CUpti_ActivityContext3);
    case CUPTI_ACTIVITY_KIND_MARKER: return sizeof(CUpti_ActivityMarker2);
    case CUPTI_ACTIVITY_KIND_OVERHEAD: return sizeof(CUpti_ActivityOverhead3);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: return sizeof(CUpti_ActivityGraphTrace2);
    default: std::abort();
  }
}

}  // namespace

extern "C" {

void fake_cupti_add(const void* record) {
  const std::lock_guard lock(mutex);
  const CUpti_ActivityKind kind = static_cast<const CUpti_Activity*>(record)->kind;
  if (enabled.count(kind) != 0) records.emplace_back(static_cast<const char*>(record), size_of(kind));
}
int fake_cupti_nvtx_attached() { return nvtx_attached ? 1 : 0; }
int InitializeInjectionNvtx2(void*) {
  nvtx_attached = true;
  return 1;
}

CUptiResult CUPTIAPI cuptiGetVersion(uint32_t* version) {
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult, const char** text) {
  *text = "CUPTI_ERROR_NOT_COMPATIBLE";
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiGetTimestamp(uint64_t* now) {
  *now = fake_cupti_start;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  return type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}
CUptiResult CUPTIAPI cuptiGetCallbackName(CUpti_CallbackDomain, uint32_t, const char** name) {
  *name = "cudaLaunchKernel_v7000";
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                                    CUpti_BuffersCallbackCompleteFunc completed) {
  want = requested;
  give = completed;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind) {
  const char* const how = std::getenv("FAKE_CUPTI");
  if (how != nullptr && std::strcmp(how, "refuses") == 0) return CUPTI_ERROR_NOT_COMPATIBLE;
  const std::lock_guard lock(mutex);
  enabled.insert(kind);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  *dropped = 0;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  uint8_t* const next = *record == nullptr ? buffer : reinterpret_cast<uint8_t*>(*record) + size_of((*record)->kind);
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityFlushAll(uint32_t) {
  std::vector<std::string> all;
  {
    const std::lock_guard lock(mutex);
    all.swap(records);
  }
  for (std::size_t i = 0; i < all.size();) {
    uint8_t* buffer = nullptr;
    size_t size = 0, most = 0, valid = 0;
    want(&buffer, &size, &most);
    for (; i < all.size() && valid + all[i].size() <= size; ++i) {
      std::memcpy(buffer + valid, all[i].data(), all[i].size());
      valid += all[i].size();
    }
    give(nullptr, 0, buffer, size, valid);
  }
  return CUPTI_SUCCESS;
}

}  // extern "C"
