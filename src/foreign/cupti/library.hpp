// libcupti, opened while the program runs: nothing links it.
#pragma once

#include <cstdint>
#include <string>

#include <cupti.h>

namespace weir::foreign {

/// Its functions. Each is as cupti.h declares it.
struct Cupti {
  void* handle = nullptr;
  std::string path;           ///< as it was opened
  std::uint32_t version = 0;  ///< of its interface
  decltype(&cuptiGetVersion) get_version = nullptr;
  decltype(&cuptiGetResultString) get_result_string = nullptr;
  decltype(&cuptiGetTimestamp) get_timestamp = nullptr;
  decltype(&cuptiSetThreadIdType) set_thread_id_type = nullptr;
  decltype(&cuptiGetCallbackName) get_callback_name = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityGetNextRecord) get_next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) get_dropped = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
};

/// The one that is named by WEIR_CUPTI; else the one that the program has, those that the loader finds, and those of CUDA's
/// usual folders. Throws std::runtime_error that says what was tried.
Cupti open_cupti();

}  // namespace weir::foreign
