// libcupti, opened while the program runs: nothing links it.
#include "foreign/cupti/library.hpp"

#include <array>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <dlfcn.h>

namespace weir::foreign {

namespace {

constexpr std::array<const char*, 3> names = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};

std::vector<std::string> folders() {
  std::vector<std::string> made;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* const home = std::getenv(variable); home != nullptr && *home != '\0') made.emplace_back(home);
  }
  made.emplace_back("/usr/local/cuda");
  made.emplace_back("/opt/cuda");
  return made;
}

void* open(const std::string& path, int more = 0) { return dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | more); }

/// What a program has loaded already is the one that fits it: Python packages bring their own.
void open_first(Cupti& made) {
  for (const char* name : names) {
    if ((made.handle = open(made.path = name, RTLD_NOLOAD)) != nullptr) return;
  }
  for (const char* name : names) {
    if ((made.handle = open(made.path = name)) != nullptr) return;
  }
  for (const std::string& folder : folders()) {
    for (const char* within : {"/extras/CUPTI/lib64/", "/lib64/", "/lib/"}) {
      for (const char* name : names) {
        if ((made.handle = open(made.path = folder + within + name)) != nullptr) return;
      }
    }
  }
  throw std::runtime_error(
      "libcupti was not found: it comes with the CUDA toolkit and with the Python package nvidia-cuda-cupti; "
      "WEIR_CUPTI=FILE says where it is");
}

template <class F>
void find(const Cupti& cupti, const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(cupti.handle, name));
  if (function == nullptr) throw std::runtime_error(cupti.path + " has no " + name + ": it is too old, or no libcupti");
}

}  // namespace

Cupti open_cupti() {
  Cupti made;
  if (const char* const named = std::getenv("WEIR_CUPTI"); named != nullptr && *named != '\0') {
    made.handle = open(made.path = named);
    if (made.handle == nullptr) {
      const char* const why = dlerror();
      throw std::runtime_error("WEIR_CUPTI: " + std::string(why == nullptr ? named : why));
    }
  } else {
    open_first(made);
  }
  find(made, "cuptiGetVersion", made.get_version);
  find(made, "cuptiGetResultString", made.get_result_string);
  find(made, "cuptiGetTimestamp", made.get_timestamp);
  find(made, "cuptiSetThreadIdType", made.set_thread_id_type);
  find(made, "cuptiGetCallbackName", made.get_callback_name);
  find(made, "cuptiActivityRegisterCallbacks", made.register_callbacks);
  find(made, "cuptiActivityEnable", made.enable);
  find(made, "cuptiActivityGetNextRecord", made.get_next_record);
  find(made, "cuptiActivityGetNumDroppedRecords", made.get_dropped);
  find(made, "cuptiActivityFlushAll", made.flush_all);
  made.get_version(&made.version);
  return made;
}

}  // namespace weir::foreign
