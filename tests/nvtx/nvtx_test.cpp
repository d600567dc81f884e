// Ranges reach tools that read NVTX. The tool is in this program: NVTX calls it as it would call one that is loaded.
#include <nvtx3/nvToolsExt.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <weir/trace.hpp>

namespace {

std::vector<std::string> told;
int a_domain;

nvtxDomainHandle_t create_domain(const char* name) {
  told.push_back(std::string("domain ") + name);
  return reinterpret_cast<nvtxDomainHandle_t>(&a_domain);
}
int push(nvtxDomainHandle_t, const nvtxEventAttributes_t* event) {
  told.push_back(std::string("push ") + event->message.ascii);
  return 0;
}
int pop(nvtxDomainHandle_t) {
  told.emplace_back("pop");
  return 0;
}

template <class F>
void set(NvtxFunctionTable table, int id, F* function) {
  *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}

int attach(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  set(table, NVTX_CBID_CORE2_DomainCreateA, &create_domain);
  set(table, NVTX_CBID_CORE2_DomainRangePushEx, &push);
  set(table, NVTX_CBID_CORE2_DomainRangePop, &pop);
  return 1;
}

TEST(Nvtx, a_range_is_told_by_its_name_in_the_domain_of_the_library) {
  InitializeInjectionNvtx2_fnptr = &attach;  // NVTX's own: it is called before anything is told
  {
    const weir::trace::Range step("step 1");
    const weir::trace::Range inner("load");
  }
  EXPECT_EQ(told, (std::vector<std::string>{"domain Weir", "push step 1", "push load", "pop", "pop"}));
}

}  // namespace
