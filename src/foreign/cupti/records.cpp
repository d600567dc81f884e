// CUPTI's records, in plain values. What is read of a kernel's or of a copy's is the same since CUDA 11.
#include "foreign/cupti/records.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "foreign/names.hpp"

namespace weir::foreign {

namespace {

using Kind = Activity::Kind;
using trace::Lane;

constexpr std::uint32_t first_with_record_numbers = 26;  // that of CUDA 12.8
constexpr std::uint32_t first_with_overhead_data =
    26;  // since CUDA 12.6 or before; of those of 12.2 the records are shorter

template <class T>
const T& as(const CUpti_Activity& record) {
  return reinterpret_cast<const T&>(record);
}

/// What commands have in common.
template <class T>
Activity command(Kind kind, const T& told) {
  Activity made;
  made.kind = kind;
  made.begin = told.start;
  made.end = told.end;
  made.correlation = told.correlationId;
  made.context = told.contextId;
  made.stream = told.streamId;
  made.device = told.deviceId;
  return made;
}

bool is_of_host(std::uint8_t memory) {
  return memory == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE || memory == CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
}

Lane lane_of(const CUpti_ActivityMemcpy6& told) {
  switch (told.copyKind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA: return Lane::copy_in;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
    case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH: return Lane::copy_out;
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH: return Lane::copy_host;
    default: break;
  }
  const bool from_host = is_of_host(told.srcKind);
  const bool to_host = is_of_host(told.dstKind);
  if (from_host) return to_host ? Lane::copy_host : Lane::copy_in;
  return to_host ? Lane::copy_out : Lane::copy_device;
}

}  // namespace

Records::Records(Store& store, std::uint32_t version, CallName call_name)
    : store_(store),
      has_record_numbers_(version >= first_with_record_numbers),
      has_overhead_data_(version >= first_with_overhead_data),
      call_name_(std::move(call_name)) {}

std::uint32_t Records::text(const char* name) { return name == nullptr ? trace::none : store_.intern(name); }

void Records::add(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_RUNTIME: return add_api(as<CUpti_ActivityAPI>(record), CUPTI_CB_DOMAIN_RUNTIME_API);
    case CUPTI_ACTIVITY_KIND_DRIVER: return add_api(as<CUpti_ActivityAPI>(record), CUPTI_CB_DOMAIN_DRIVER_API);
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return add_kernel(as<CUpti_ActivityKernel10>(record));
    case CUPTI_ACTIVITY_KIND_MEMCPY: return add_copy(as<CUpti_ActivityMemcpy6>(record));
    case CUPTI_ACTIVITY_KIND_MEMCPY2: return add_peer_copy(as<CUpti_ActivityMemcpyPtoP4>(record));
    case CUPTI_ACTIVITY_KIND_MEMSET: return add_fill(as<CUpti_ActivityMemset4>(record));
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: return add_graph(as<CUpti_ActivityGraphTrace2>(record));
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT: return add_record(as<CUpti_ActivityCudaEvent2>(record));
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: return add_sync(as<CUpti_ActivitySynchronization2>(record));
    case CUPTI_ACTIVITY_KIND_MARKER: return add_marker(as<CUpti_ActivityMarker2>(record));
    case CUPTI_ACTIVITY_KIND_STREAM: return add_stream(as<CUpti_ActivityStream>(record));
    case CUPTI_ACTIVITY_KIND_NAME: return add_name(as<CUpti_ActivityName>(record));
    case CUPTI_ACTIVITY_KIND_OVERHEAD: return add_overhead(as<CUpti_ActivityOverhead3>(record));
    case CUPTI_ACTIVITY_KIND_CONTEXT: {
      const auto& told = as<CUpti_ActivityContext3>(record);
      return store_.add_context(told.contextId, {told.deviceId, told.nullStreamId});
    }
    default: return;
  }
}

void Records::add_api(const CUpti_ActivityAPI& told, CUpti_CallbackDomain domain) {
  const auto key = (static_cast<std::uint64_t>(domain) << 32) | static_cast<std::uint32_t>(told.cbid);
  const auto [name, is_new] = calls_.try_emplace(key, 0);
  if (is_new) name->second = store_.intern(call_name(call_name_(domain, told.cbid)));
  Activity made;
  made.kind = Kind::api;
  made.begin = told.start;
  made.end = std::max(told.start, told.end);
  made.correlation = told.correlationId;
  made.thread = told.threadId;
  made.name = name->second;
  store_.add(made);
}

void Records::add_kernel(const CUpti_ActivityKernel10& told) {
  Activity made = command(Kind::kernel, told);
  made.name = text(told.name);
  made.number = static_cast<std::uint64_t>(told.gridX) * static_cast<std::uint64_t>(told.gridY) *
                static_cast<std::uint64_t>(told.gridZ);
  made.in_graph = told.graphNodeId != 0;
  store_.add(made);
}

void Records::add_copy(const CUpti_ActivityMemcpy6& told) {
  Activity made = command(Kind::copy, told);
  made.bytes = told.bytes;
  made.lane = lane_of(told);
  made.blocks = (told.flags & CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC) == 0;
  made.pageable =
      told.srcKind == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE || told.dstKind == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
  made.in_graph = told.graphNodeId != 0;
  store_.add(made);
}

void Records::add_peer_copy(const CUpti_ActivityMemcpyPtoP4& told) {
  Activity made = command(Kind::copy, told);
  made.bytes = told.bytes;
  made.lane = Lane::copy_device;
  made.in_graph = told.graphNodeId != 0;
  store_.add(made);
}

void Records::add_fill(const CUpti_ActivityMemset4& told) {
  Activity made = command(Kind::fill, told);
  made.bytes = told.bytes;
  made.in_graph = told.graphNodeId != 0;
  store_.add(made);
}

void Records::add_graph(const CUpti_ActivityGraphTrace2& told) {
  Activity made = command(Kind::graph, told);
  made.object = told.graphId;
  store_.add(made);
}

void Records::add_record(const CUpti_ActivityCudaEvent2& told) {
  Activity made;
  made.kind = Kind::record;
  made.correlation = told.correlationId;
  made.context = told.contextId;
  made.stream = told.streamId;
  made.device = told.deviceId;
  made.object = told.eventId;
  made.number = has_record_numbers_ ? told.cudaEventSyncId : 0;
  store_.add(made);
}

void Records::add_sync(const CUpti_ActivitySynchronization2& told) {
  Activity made;
  switch (told.type) {
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE: made.kind = Kind::event_sync; break;
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT: made.kind = Kind::wait; break;
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE: made.kind = Kind::stream_sync; break;
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE: made.kind = Kind::device_sync; break;
    default: return;
  }
  made.begin = told.start;
  made.end = told.end;
  made.correlation = told.correlationId;
  made.context = told.contextId;
  made.stream = told.streamId;
  made.object = told.cudaEventId;
  const bool numbered = has_record_numbers_ && told.cudaEventSyncId != static_cast<std::uint32_t>(-1) &&
                        told.cudaEventSyncId != static_cast<std::uint64_t>(-1);
  made.number = numbered ? told.cudaEventSyncId : 0;
  store_.add(made);
}

void Records::add_marker(const CUpti_ActivityMarker2& told) {
  Activity made;
  const auto flags = static_cast<unsigned>(told.flags);
  if ((flags & CUPTI_ACTIVITY_FLAG_MARKER_START) != 0) {
    made.kind = Kind::range_begins;
  } else if ((flags & CUPTI_ACTIVITY_FLAG_MARKER_END) != 0) {
    made.kind = Kind::range_ends;
  } else if ((flags & CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS) != 0) {
    made.kind = Kind::mark;
  } else {
    return;
  }
  made.begin = told.timestamp;
  made.object = told.id;
  made.name = text(told.name);
  const bool of_thread = told.objectKind == CUPTI_ACTIVITY_OBJECT_THREAD;
  made.thread = of_thread ? told.objectId.pt.threadId : 0;
  store_.add(made);
}

void Records::add_stream(const CUpti_ActivityStream& told) {
  Stream made;
  made.priority = static_cast<std::int32_t>(told.priority);
  made.blocking = told.flag != CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING;
  store_.add_stream({told.contextId, told.streamId}, made);
}

void Records::add_name(const CUpti_ActivityName& told) {
  if (told.objectKind != CUPTI_ACTIVITY_OBJECT_STREAM || told.name == nullptr) return;
  store_.name_stream({told.objectId.dcs.contextId, told.objectId.dcs.streamId}, told.name);
}

void Records::add_overhead(const CUpti_ActivityOverhead3& told) {
  const std::uint64_t took = std::max(told.start, told.end) - told.start;
  Overhead made;
  switch (told.overheadKind) {
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION: made.instrumentation = took; break;
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE: made.resources = took; break;
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH:
    case CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST: made.buffers = took; break;
    case CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL:
      if (has_overhead_data_) std::free(told.overheadData);  // it is the reader's
      return;
    default: return;  // the driver's: a program has them without CUPTI, too
  }
  store_.add_overhead(made);
}

}  // namespace weir::foreign
