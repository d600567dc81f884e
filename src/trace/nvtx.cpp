// NVTX is a header, which comes with the CUDA toolkit: it finds the tool, if there is one, by itself.
#include "trace/nvtx.hpp"

#ifdef WEIR_WITH_NVTX
#include <nvtx3/nvToolsExt.h>

namespace weir::trace {

namespace {
/// Null without a tool.
nvtxDomainHandle_t domain() noexcept {
  static const nvtxDomainHandle_t made = nvtxDomainCreateA("Weir");
  return made;
}
}  // namespace

bool nvtx_listens() noexcept { return domain() != nullptr; }

void nvtx_push(const std::string& name) noexcept {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name.c_str();
  nvtxDomainRangePushEx(domain(), &event);
}

void nvtx_pop() noexcept { nvtxDomainRangePop(domain()); }

}  // namespace weir::trace
#else
namespace weir::trace {

bool nvtx_listens() noexcept { return false; }
void nvtx_push(const std::string&) noexcept {}
void nvtx_pop() noexcept {}

}  // namespace weir::trace
#endif
