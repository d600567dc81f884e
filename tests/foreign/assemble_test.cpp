// From CUPTI's records to timelines: order, edges, moments, waits and ranges, by records made by hand.
#include <sstream>

#include <gtest/gtest.h>

#include "foreign/names.hpp"
#include "foreign/store.hpp"
#include "made.hpp"

namespace {

using foreign_test::Activity;
using foreign_test::drawn;
using foreign_test::Kind;
using foreign_test::Made;
using weir::foreign::assemble;
using weir::trace::Lane;
using weir::trace::Timeline;

TEST(Foreign, commands_come_behind_their_stream_and_the_events_that_it_waits_for) {
  Made made;
  made.kernel("_Z5SaxpyPfi", 13, 1100, 1200);
  made.record(4, 13, 71);
  made.record(4, 13, 72);  // another record of the same event
  made.wait(4, 14, 71);
  made.copy(Lane::copy_out, 14, 1200, 1300);
  EXPECT_EQ(drawn(assemble(made.collected)),
            "stream 13.Saxpy 10: 100-200\n"
            "stream 13.record 20: 200-200 <stream order- stream 13.Saxpy\n"
            "stream 13.record 30: 200-200 <stream order- stream 13.record\n"
            "stream 14.wait 40: 200-200 <event- stream 13.record\n"
            "stream 14.copy to host 50: 200-300 <stream order- stream 14.wait\n");
  const Timeline timeline = assemble(made.collected);
  EXPECT_EQ(timeline.dependencies_of(timeline.commands[3])[0].command, 1u) << "the first record, which has that number";
  EXPECT_EQ(timeline.commands[0].elements, 12u);
  EXPECT_EQ(timeline.commands[4].bytes, 4096u);
  EXPECT_EQ(timeline.commands[3].event, timeline.commands[1].event);
  EXPECT_EQ(timeline.duration, 8000);
}

TEST(Foreign, waits_go_by_the_last_record_where_records_have_no_numbers) {
  Made made;
  made.kernel("a", 13, 1100, 1200);
  made.record(4, 13, 0);
  made.record(4, 13, 0);
  made.wait(4, 14, 0);
  const Timeline timeline = assemble(made.collected);
  EXPECT_EQ(timeline.dependencies_of(timeline.commands[3])[0].command, 2u);
}

TEST(Foreign, the_default_stream_comes_behind_blocking_streams_and_they_behind_it) {
  Made made;
  made.collected.streams[{1, 14}].blocking = false;
  made.kernel("a", 13, 1100, 1200);
  made.kernel("b", 14, 1100, 1200);
  made.kernel("legacy", 7, 1200, 1300);
  made.kernel("c", 13, 1300, 1400);
  made.kernel("d", 14, 1200, 1300);
  made.kernel("again", 7, 1400, 1500);
  EXPECT_EQ(drawn(assemble(made.collected)),
            "stream 13.a 10: 100-200\n"
            "stream 14.b 20: 100-200\n"
            "default stream.legacy 30: 200-300 <default stream- stream 13.a\n"
            "stream 13.c 40: 300-400 <stream order- stream 13.a <default stream- default stream.legacy\n"
            "stream 14.d 50: 200-300 <stream order- stream 14.b\n"
            "default stream.again 60: 400-500 <stream order- default stream.legacy <default stream- stream 13.c\n");
}

TEST(Foreign, what_the_runtime_calls_of_the_driver_is_one_call) {
  Made made;
  const std::uint32_t outer = made.call("cudaLaunchKernel_v7000", 20);
  Activity inner = made.collected.activities.back();
  inner.begin += 5;
  inner.end -= 5;
  inner.correlation = outer + 50;
  made.collected.activities.push_back(inner);
  made.add(Kind::kernel, 13, 1100, 1200, outer + 50).name = made.text("by the driver");
  made.add(Kind::kernel, 13, 1200, 1300, outer).name = made.text("by the runtime");
  EXPECT_EQ(drawn(assemble(made.collected)),
            "stream 13.by the runtime 10: 200-300\n"
            "stream 13.by the driver 10: 100-200 <stream order- stream 13.by the runtime\n");
}

TEST(Foreign, nodes_of_a_launch_are_in_no_order_of_their_stream) {
  Made made;
  made.kernel("before", 13, 1100, 1200);
  const std::uint32_t launch = made.call("cudaGraphLaunch_v10000");
  for (const std::uint64_t end : {1300u, 1400u, 1350u}) {
    Activity& node = made.add(Kind::kernel, 13, 1200, end, launch);
    node.name = made.text("node" + std::to_string(end));
    node.in_graph = true;
  }
  made.kernel("behind", 13, 1400, 1500);
  EXPECT_EQ(drawn(assemble(made.collected)),
            "stream 13.before 10: 100-200\n"
            "stream 13.node1300 20: 200-300 <stream order- stream 13.before\n"
            "stream 13.node1400 20: 200-400 <stream order- stream 13.before\n"
            "stream 13.node1350 20: 200-350 <stream order- stream 13.before\n"
            "stream 13.behind 30: 400-500 <stream order- stream 13.node1400\n");
}

TEST(Foreign, waits_of_the_host_say_for_what) {
  Made made;
  made.kernel("a", 13, 1100, 1500);
  made.record(4, 13, 71);
  made.kernel("b", 14, 1100, 1700);
  const auto waited = [&](Kind kind, std::uint32_t stream, const char* name, std::uint64_t ns) -> Activity& {
    const std::uint32_t called = made.call(name, ns);
    const Activity& call = made.collected.activities.back();
    return made.add(kind, stream, call.begin, call.end, called);
  };
  Activity& event = waited(Kind::event_sync, 0, "cudaEventSynchronize_v3020", 460);
  event.object = 4;
  event.number = 71;
  waited(Kind::stream_sync, 14, "cudaStreamSynchronize_v3020", 200);
  waited(Kind::device_sync, 0, "cudaDeviceSynchronize_v3020", 10);
  const std::string text = drawn(assemble(made.collected));
  EXPECT_EQ(text.substr(text.find("thread")),
            "thread 1 waited for event: 40-500 for stream 13.record\n"
            "thread 1 waited for stream 14: 505-705 for stream 14.b\n"
            "thread 1 waited for device cuda:0: 710-720 for stream 14.b\n");
}

TEST(Foreign, copies_and_allocations_that_waited_are_waits_of_the_host) {
  Made made;
  made.copy(Lane::copy_in, 13, 1015, 1030, 25).pageable = true;  // held until it was staged
  made.copy(Lane::copy_out, 13, 1050, 1060, 25).blocks = true;   // returned when it was over
  made.copy(Lane::copy_in, 13, 1200, 1300, 5).blocks = true;     // returned before
  made.call("cudaMalloc_v3020", 5);                              // something ran on
  made.kernel("k", 13, 1300, 1400);
  made.call("cudaFree_v3020", 300);  // waited
  made.call("cudaFree_v3020", 5);    // there was nothing to wait for
  const std::string text = drawn(assemble(made.collected));
  EXPECT_EQ(text.substr(text.find("thread")),
            "thread 1 waited for pageable copy: 10-35 for stream 13.copy to device\n"
            "thread 1 waited for copy: 40-65 for stream 13.copy to host\n"
            "thread 1 waited for allocation: 100-400 for stream 13.k\n");
}

TEST(Foreign, ranges_end_by_their_number_and_marks_are_moments) {
  Made made;
  const auto add = [&](Kind kind, std::uint32_t number, std::uint64_t moment, const char* name) {
    Activity& one = made.add(kind, 0, moment, 0, 0);
    one.object = number;
    one.thread = 5;
    one.name = *name == 0 ? weir::trace::none : made.text(name);
  };
  add(Kind::range_ends, 2, 1300, "");  // records come in any order
  add(Kind::range_begins, 1, 1100, "outer");
  add(Kind::range_begins, 2, 1200, "inner");
  add(Kind::range_begins, 3, 1250, "open");
  add(Kind::mark, 4, 1260, "here");
  add(Kind::range_ends, 1, 1400, "");
  EXPECT_EQ(drawn(assemble(made.collected)),
            "thread 1 outer: 100-400\n"
            "thread 1 inner: 200-300\n"
            "thread 1 open: 250--1\n"
            "thread 1 here: 260-260\n");
}

TEST(Foreign, what_is_not_known_is_said) {
  Made made;
  made.add(Kind::kernel, 13, 0, 0, 0).name = made.text("no moments, no call");
  made.collected.dropped = 3;
  made.collected.lost = 4;
  const Timeline timeline = assemble(made.collected);
  EXPECT_EQ(drawn(timeline), "stream 13.no moments, no call -1: pending\n");
  EXPECT_EQ(timeline.note,
            "3 commands were dropped, the oldest first: the limit of memory was reached; 4 records were lost by CUPTI; "
            "1 commands have no moments");
  EXPECT_EQ(timeline.dropped, 3u);
}

TEST(Foreign, what_cupti_took_is_said) {
  Made made;
  EXPECT_EQ(assemble(made.collected).clock.find("took"), std::string::npos) << "nothing was told of it";
  made.collected.overhead.instrumentation = 1'250'000;
  made.collected.overhead.buffers = 40'000;
  const std::string clock = assemble(made.collected).clock;
  EXPECT_TRUE(
      clock.ends_with("; CUPTI itself took 1.25 ms for instrumentation, 40 us for buffers of records, of all "
                      "threads together"))
      << clock;
}

TEST(Foreign, streams_have_the_names_that_they_were_given_and_say_their_context_where_there_are_two) {
  Made made;
  made.collected.contexts[2] = {0, 7};
  made.collected.contexts[3] = {1, 7};
  made.collected.streams[{1, 13}].name = "loads";
  made.collected.streams[{1, 13}].priority = -3;
  for (const std::uint32_t context : {1u, 2u, 3u}) {
    made.kernel("k", 7, 1100, 1200).context = context;
    made.kernel("k", 13, 1100, 1200).context = context;
  }
  const Timeline timeline = assemble(made.collected);
  std::string text;
  for (const weir::trace::Stream& one : timeline.streams) {
    text += std::string(timeline.text(timeline.devices[one.device])) + " " + std::string(timeline.text(one.name)) +
            " " + std::to_string(one.priority) + (one.legacy ? " legacy\n" : "\n");
  }
  EXPECT_EQ(text,
            "cuda:0 default stream 0 legacy\n"
            "cuda:0 loads -3\n"
            "cuda:0 default stream of context 2 0 legacy\n"
            "cuda:0 stream 13 of context 2 0\n"
            "cuda:1 default stream 0 legacy\n"
            "cuda:1 stream 13 0\n");
}

TEST(Foreign, what_was_assembled_can_be_read_back) {
  Made made;
  made.kernel("_ZN2at6native6vectorILi4EEEvPfi", 13, 1100, 1200);
  made.record(4, 13, 71);
  made.wait(4, 7, 71);
  made.copy(Lane::copy_out, 7, 1200, 1300, 250).pageable = true;
  const Timeline timeline = assemble(made.collected);
  std::ostringstream out;
  write_json(timeline, out);
  EXPECT_EQ(drawn(weir::trace::parse_json(out.str())), drawn(timeline));
}

TEST(Foreign, names_are_as_people_write_them) {
  using weir::foreign::call_name;
  using weir::foreign::kernel_name;
  EXPECT_EQ(call_name("cudaFree_v3020"), "cudaFree");
  EXPECT_EQ(call_name("cuMemFree_v2"), "cuMemFree");
  EXPECT_EQ(call_name("cuLaunch_vfast"), "cuLaunch_vfast");
  EXPECT_EQ(kernel_name("_Z5SaxpyPfi"), "Saxpy");
  EXPECT_EQ(kernel_name("_ZN2at6native6vectorILi4EEEvPfi"), "at::native::vector<4>");
  EXPECT_EQ(kernel_name("_ZN12_GLOBAL__N_14workEPfi"), "(anonymous namespace)::work");
  EXPECT_EQ(kernel_name("triton_poi_fused_0"), "triton_poi_fused_0");
}

TEST(Foreign, the_oldest_activities_make_room_and_are_counted) {
  weir::foreign::Store store(0);  // two pieces at least
  Activity one;
  one.kind = Kind::kernel;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    one.begin = i + 1;
    store.add(one);
  }
  const weir::foreign::Collected collected = store.read();
  EXPECT_EQ(store.commands(), 10000u);
  EXPECT_GT(collected.dropped, 0u);
  ASSERT_EQ(collected.dropped + collected.activities.size(), 10000u);
  EXPECT_EQ(collected.activities.front().begin, collected.dropped + 1);
  EXPECT_EQ(collected.activities.back().begin, 10000u);
}

}  // namespace
