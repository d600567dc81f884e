// CUPTI's records become activities with all that timelines need of them.
#include <cstdint>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "foreign/cupti/records.hpp"

namespace {

using weir::foreign::Activity;
using weir::foreign::Collected;
using weir::foreign::Records;
using weir::foreign::Store;
using weir::trace::Lane;
using Kind = Activity::Kind;

/// What becomes of one record.
template <class T>
Collected read(const T& record, std::uint32_t version = CUPTI_API_VERSION) {
  Store store(0);
  Records records(store, version, [](CUpti_CallbackDomain domain, CUpti_CallbackId id) {
    return (domain == CUPTI_CB_DOMAIN_RUNTIME_API ? "cudaCall" : "cuCall") + std::to_string(id) + "_v2";
  });
  records.add(reinterpret_cast<const CUpti_Activity&>(record));
  return store.read();
}

/// What all commands have.
template <class T>
T command(CUpti_ActivityKind kind) {
  T made{};
  made.kind = kind;
  made.start = 100;
  made.end = 200;
  made.deviceId = 2;
  made.contextId = 3;
  made.streamId = 13;
  made.correlationId = 5;
  return made;
}

void expect_command(const Collected& collected, Kind kind) {
  ASSERT_EQ(collected.activities.size(), 1u);
  const Activity& one = collected.activities[0];
  EXPECT_EQ(one.kind, kind);
  EXPECT_EQ(one.begin, 100u);
  EXPECT_EQ(one.end, 200u);
  EXPECT_EQ(one.device, 2u);
  EXPECT_EQ(one.context, 3u);
  EXPECT_EQ(one.stream, 13u);
  EXPECT_EQ(one.correlation, 5u);
}

TEST(ForeignRecords, of_kernels) {
  auto told = command<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  told.name = "Saxpy";
  told.gridX = 2;
  told.gridY = 3;
  told.gridZ = 4;
  told.graphNodeId = 9;
  const Collected collected = read(told);
  expect_command(collected, Kind::kernel);
  EXPECT_EQ(collected.activities[0].number, 24u);
  EXPECT_TRUE(collected.activities[0].in_graph);
  EXPECT_EQ(collected.texts.at(collected.activities[0].name), "Saxpy");
}

TEST(ForeignRecords, of_copies_say_from_where_to_where_and_whether_they_blocked) {
  auto told = command<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY);
  told.bytes = 4096;
  told.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  told.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
  told.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  Collected collected = read(told);
  expect_command(collected, Kind::copy);
  EXPECT_EQ(collected.activities[0].bytes, 4096u);
  EXPECT_EQ(collected.activities[0].lane, Lane::copy_in);
  EXPECT_TRUE(collected.activities[0].pageable);
  EXPECT_TRUE(collected.activities[0].blocks);
  told.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
  told.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  told.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  told.flags = CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC;
  collected = read(told);
  EXPECT_EQ(collected.activities[0].lane, Lane::copy_out);
  EXPECT_FALSE(collected.activities[0].pageable);
  EXPECT_FALSE(collected.activities[0].blocks);
  told.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
  told.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  EXPECT_EQ(read(told).activities[0].lane, Lane::copy_device);
  told.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN;  // then by the memory
  told.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  EXPECT_EQ(read(told).activities[0].lane, Lane::copy_in);
  auto peer = command<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2);
  peer.bytes = 10;
  collected = read(peer);
  expect_command(collected, Kind::copy);
  EXPECT_EQ(collected.activities[0].lane, Lane::copy_device);
}

TEST(ForeignRecords, of_fills_and_graphs) {
  auto fill = command<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
  fill.bytes = 77;
  expect_command(read(fill), Kind::fill);
  EXPECT_EQ(read(fill).activities[0].bytes, 77u);
  auto graph = command<CUpti_ActivityGraphTrace2>(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  graph.graphId = 6;
  expect_command(read(graph), Kind::graph);
  EXPECT_EQ(read(graph).activities[0].object, 6u);
}

TEST(ForeignRecords, of_events_have_the_numbers_of_their_records_where_the_library_has_them) {
  CUpti_ActivityCudaEvent2 record{};
  record.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
  record.correlationId = 5;
  record.contextId = 3;
  record.streamId = 13;
  record.eventId = 8;
  record.cudaEventSyncId = 99;
  EXPECT_EQ(read(record).activities[0].kind, Kind::record);
  EXPECT_EQ(read(record).activities[0].object, 8u);
  EXPECT_EQ(read(record).activities[0].number, 99u);
  EXPECT_EQ(read(record, 24).activities[0].number, 0u) << "CUDA 12.6 has shorter records";
  CUpti_ActivitySynchronization2 wait{};
  wait.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  wait.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
  wait.start = 100;
  wait.end = 110;
  wait.streamId = 14;
  wait.cudaEventId = 8;
  wait.cudaEventSyncId = 99;
  EXPECT_EQ(read(wait).activities[0].kind, Kind::wait);
  EXPECT_EQ(read(wait).activities[0].stream, 14u);
  EXPECT_EQ(read(wait).activities[0].object, 8u);
  EXPECT_EQ(read(wait).activities[0].number, 99u);
  EXPECT_EQ(read(wait, 24).activities[0].number, 0u);
  wait.cudaEventSyncId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  EXPECT_EQ(read(wait).activities[0].number, 0u);
}

TEST(ForeignRecords, of_waits_of_the_host) {
  CUpti_ActivitySynchronization2 told{};
  told.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  const auto kind_of = [&](CUpti_ActivitySynchronizationType type) {
    told.type = type;
    return read(told).activities.at(0).kind;
  };
  EXPECT_EQ(kind_of(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE), Kind::event_sync);
  EXPECT_EQ(kind_of(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE), Kind::stream_sync);
  EXPECT_EQ(kind_of(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE), Kind::device_sync);
  told.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN;
  EXPECT_TRUE(read(told).activities.empty());
}

TEST(ForeignRecords, of_calls) {
  CUpti_ActivityAPI told{};
  told.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  told.cbid = 7;
  told.start = 100;
  told.end = 200;
  told.threadId = 4242;
  told.correlationId = 5;
  const Collected runtime = read(told);
  EXPECT_EQ(runtime.activities[0].kind, Kind::api);
  EXPECT_EQ(runtime.activities[0].thread, 4242u);
  EXPECT_EQ(runtime.texts[0], "cudaCall7");
  told.kind = CUPTI_ACTIVITY_KIND_DRIVER;
  EXPECT_EQ(read(told).texts[0], "cuCall7");
}

TEST(ForeignRecords, of_markers) {
  CUpti_ActivityMarker2 told{};
  told.kind = CUPTI_ACTIVITY_KIND_MARKER;
  told.flags = CUPTI_ACTIVITY_FLAG_MARKER_START;
  told.timestamp = 100;
  told.id = 3;
  told.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  told.objectId.pt.threadId = 4242;
  told.name = "step";
  const Collected begin = read(told);
  EXPECT_EQ(begin.activities[0].kind, Kind::range_begins);
  EXPECT_EQ(begin.activities[0].begin, 100u);
  EXPECT_EQ(begin.activities[0].object, 3u);
  EXPECT_EQ(begin.activities[0].thread, 4242u);
  EXPECT_EQ(begin.texts[0], "step");
  told.flags = CUPTI_ACTIVITY_FLAG_MARKER_END;
  told.name = nullptr;
  EXPECT_EQ(read(told).activities[0].kind, Kind::range_ends);
  told.flags = CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS;
  EXPECT_EQ(read(told).activities[0].kind, Kind::mark);
}

TEST(ForeignRecords, of_contexts_streams_and_names) {
  CUpti_ActivityContext3 context{};
  context.kind = CUPTI_ACTIVITY_KIND_CONTEXT;
  context.contextId = 3;
  context.deviceId = 2;
  context.nullStreamId = 7;
  EXPECT_EQ(read(context).contexts.at(3).device, 2u);
  EXPECT_EQ(read(context).contexts.at(3).null_stream, 7u);
  CUpti_ActivityStream stream{};
  stream.kind = CUPTI_ACTIVITY_KIND_STREAM;
  stream.contextId = 3;
  stream.streamId = 13;
  stream.priority = static_cast<std::uint32_t>(-2);
  stream.flag = CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING;
  const weir::foreign::Stream known = read(stream).streams.at({3, 13});
  EXPECT_EQ(known.priority, -2);
  EXPECT_FALSE(known.blocking);
  CUpti_ActivityName name{};
  name.kind = CUPTI_ACTIVITY_KIND_NAME;
  name.objectKind = CUPTI_ACTIVITY_OBJECT_STREAM;
  name.objectId.dcs.contextId = 3;
  name.objectId.dcs.streamId = 13;
  name.name = "loads";
  EXPECT_EQ(read(name).streams.at({3, 13}).name, "loads");
}

CUpti_ActivityOverhead3 overhead(CUpti_ActivityOverheadKind kind, std::uint64_t ns) {
  CUpti_ActivityOverhead3 made{};
  made.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  made.overheadKind = kind;
  made.start = 100;
  made.end = 100 + ns;
  return made;
}

TEST(ForeignRecords, of_what_cupti_took_are_added_up) {
  Store store(0);
  Records records(store, CUPTI_API_VERSION, {});
  const auto add = [&](CUpti_ActivityOverheadKind kind, std::uint64_t ns) {
    const CUpti_ActivityOverhead3 told = overhead(kind, ns);
    records.add(reinterpret_cast<const CUpti_Activity&>(told));
  };
  add(CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION, 1);
  add(CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION, 20);
  add(CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE, 300);
  add(CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH, 4000);
  add(CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST, 50000);
  const Collected collected = store.read();
  EXPECT_EQ(collected.overhead.instrumentation, 21u);
  EXPECT_EQ(collected.overhead.resources, 300u);
  EXPECT_EQ(collected.overhead.buffers, 54000u);
  EXPECT_TRUE(collected.activities.empty()) << "they take no room of commands";
}

TEST(ForeignRecords, of_what_the_driver_takes_without_cupti_too_are_left_out) {
  for (const CUpti_ActivityOverheadKind kind :
       {CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER, CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING,
        CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING, CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL}) {
    const weir::foreign::Overhead took = read(overhead(kind, 10)).overhead;
    EXPECT_EQ(took.instrumentation + took.resources + took.buffers, 0u) << kind;
  }
}

TEST(ForeignRecords, of_full_command_buffers_give_their_data_back_where_the_library_has_them) {
  CUpti_ActivityOverhead3 told = overhead(CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL, 10);
  told.overheadData = std::malloc(sizeof(CUpti_ActivityOverheadCommandBufferFullData));
  read(told);  // AddressSanitizer tells if it is left
  char behind_the_record = 0;
  told.overheadData = &behind_the_record;
  read(told, 18);
}

TEST(ForeignRecords, of_other_kinds_are_left_out) {
  CUpti_ActivityAPI told{};
  told.kind = CUPTI_ACTIVITY_KIND_ENVIRONMENT;
  EXPECT_TRUE(read(told).activities.empty());
}

}  // namespace
