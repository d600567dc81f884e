// Collects CUPTI's records of this process.
#include "foreign/cupti/collector.hpp"

#include <array>
#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "trace/process.hpp"

namespace weir::foreign {

namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 20;

/// Whom CUPTI's callbacks, which have no argument for it, belong to.
std::atomic<Collector*> the_collector = nullptr;

constexpr std::array optional_kinds = {
    CUPTI_ACTIVITY_KIND_MEMCPY,     CUPTI_ACTIVITY_KIND_MEMCPY2,
    CUPTI_ACTIVITY_KIND_MEMSET,     CUPTI_ACTIVITY_KIND_RUNTIME,
    CUPTI_ACTIVITY_KIND_DRIVER,     CUPTI_ACTIVITY_KIND_CONTEXT,
    CUPTI_ACTIVITY_KIND_STREAM,     CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
    CUPTI_ACTIVITY_KIND_CUDA_EVENT, CUPTI_ACTIVITY_KIND_MARKER,
    CUPTI_ACTIVITY_KIND_NAME,       CUPTI_ACTIVITY_KIND_OVERHEAD,
};

}  // namespace

Collector::Collector(const Options& options)
    : cupti_(open_cupti()),
      store_(options.limit),
      records_(store_, cupti_.version, [this](CUpti_CallbackDomain domain, CUpti_CallbackId id) {
        const char* name = nullptr;
        return std::string(cupti_.get_callback_name(domain, id, &name) == CUPTI_SUCCESS && name != nullptr ? name : "");
      }) {
  the_collector = this;
  cupti_.set_thread_id_type(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  const CUptiResult registered = cupti_.register_callbacks(wanted, filled);
  if (registered != CUPTI_SUCCESS) refuse("takes no one who reads its records", registered);
  cupti_.get_timestamp(&started_);
  steady_ = trace::now();
  const CUptiResult kernels = cupti_.enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (kernels != CUPTI_SUCCESS) refuse("records no kernels", kernels);
  for (const CUpti_ActivityKind kind : optional_kinds) cupti_.enable(kind);
  // With it, graphs' nodes are not told of one by one, which costs much less.
  if (!options.graph_nodes) cupti_.enable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
}

void Collector::refuse(const char* what, CUptiResult result) {
  the_collector = nullptr;  // CUPTI may still hand over a buffer
  const char* why = nullptr;
  cupti_.get_result_string(result, &why);
  throw std::runtime_error(cupti_.path + " " + what + ": " + (why == nullptr ? "" : why));
}

void Collector::wanted(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(64, buffer_bytes));
  *size = *buffer == nullptr ? 0 : buffer_bytes;
  *most_records = 0;
}

void Collector::filled(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  Collector* const collector = the_collector;
  if (valid > 0 && collector != nullptr) collector->read(buffer, valid);
  std::free(buffer);
}

void Collector::read(std::uint8_t* buffer, std::size_t valid) {
  const detail::LockGuard lock(records_mutex_);
  CUpti_Activity* record = nullptr;
  while (cupti_.get_next_record(buffer, valid, &record) == CUPTI_SUCCESS) records_.add(*record);
  std::size_t lost = 0;
  if (cupti_.get_dropped(nullptr, 0, &lost) == CUPTI_SUCCESS && lost > 0) store_.add_lost(lost);
}

Collected Collector::collect(Ask ask) {
  if (ask != Ask::nothing) cupti_.flush_all(ask == Ask::all ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
  Collected made = store_.read();
  made.started = started_;
  cupti_.get_timestamp(&made.stopped);
  return made;
}

}  // namespace weir::foreign
