// CUPTI's records, in plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>

#include <cupti.h>

#include "foreign/store.hpp"

namespace weir::foreign {

/// Thread rule: one at a time.
class Records {
 public:
  using CallName = std::function<std::string(CUpti_CallbackDomain, CUpti_CallbackId)>;

  /// `version` is that of the library that makes the records: older ones are shorter.
  Records(Store& store, std::uint32_t version, CallName call_name);

  /// Of kinds that are not known nothing is kept.
  void add(const CUpti_Activity& record);

 private:
  void add_api(const CUpti_ActivityAPI& told, CUpti_CallbackDomain domain);
  void add_kernel(const CUpti_ActivityKernel10& told);
  void add_copy(const CUpti_ActivityMemcpy6& told);
  void add_peer_copy(const CUpti_ActivityMemcpyPtoP4& told);
  void add_fill(const CUpti_ActivityMemset4& told);
  void add_graph(const CUpti_ActivityGraphTrace2& told);
  void add_record(const CUpti_ActivityCudaEvent2& told);
  void add_sync(const CUpti_ActivitySynchronization2& told);
  void add_marker(const CUpti_ActivityMarker2& told);
  void add_stream(const CUpti_ActivityStream& told);
  void add_name(const CUpti_ActivityName& told);
  void add_overhead(const CUpti_ActivityOverhead3& told);
  std::uint32_t text(const char* name);

  Store& store_;
  const bool has_record_numbers_;
  const bool has_overhead_data_;
  CallName call_name_;
  std::unordered_map<std::uint64_t, std::uint32_t> calls_;  ///< texts, by domain and number
};

}  // namespace weir::foreign
