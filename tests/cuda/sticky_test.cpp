// A kernel that fails on the device: an Error at the next synchronisation and at every later call, to the end of the
// process, and never a word on stderr. Each in a process of its own.
#include <string>

#include "on_gpu.hpp"
#include "support/child.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

struct WriteToNowhere {
  WEIR_KERNEL void operator()(std::size_t, std::uintptr_t address) const {
    *reinterpret_cast<volatile int*>(address) = 1;
  }
};
struct TakeTooMuch {
  WEIR_KERNEL void operator()(weir::Block& block, int* word) const {
    auto memory = block.shared<int>(1000);
    block.each([&](std::size_t t) { memory[t] = static_cast<int>(t); });
    block.each([&](std::size_t t) {
      if (t == 0) *word = memory[t];
    });
  }
};

void insist_device_failed(const char* what, std::initializer_list<std::string_view> words, auto&& call) {
  const auto error = error_of(call);
  insist(error.has_value(), what);
  insist(error->errc() == weir::Errc::device_failed, error->what());
  for (std::string_view word : words)
    insist(std::string_view(error->what()).find(word) != std::string_view::npos, error->what());
}

WEIR_SCENE(a_kernel_writes_to_nowhere) {
  const weir::Device gpu = weir::device("cuda:0");
  weir::Stream s(gpu, {.name = "upload"});
  weir::Stream other(gpu);
  Marker marker;
  mark(other, marker);
  other.synchronize();
  weir::launch(s, 1, WriteToNowhere{}, std::uintptr_t{8});
  insist_device_failed("synchronise throws", {"upload", "cudaErrorIllegalAddress", "sticky_test.cpp"},
                       [&] { s.synchronize(); });
  insist_device_failed("again", {}, [&] { s.synchronize(); });
  insist_device_failed("other streams", {}, [&] { other.synchronize(); });
  insist_device_failed("launch", {"weir::launch"}, [&] { mark(other, marker); });
  insist_device_failed("asking", {}, [&] { (void)other.done(); });
  insist_device_failed("memory", {}, [&] { (void)weir::empty<int>(other, 100); });
  insist_device_failed("new streams", {}, [&] { weir::Stream fresh(gpu); });
  insist_device_failed("the device", {}, [&] { gpu.synchronize(); });
  insist_device_failed("host functions", {"weir::host_call"}, [&] { weir::host_call(s, [] {}); });
}

WEIR_SCENE(a_block_takes_too_much_shared_memory) {
  weir::Stream s(weir::device("cuda:0"));
  Marker marker;
  weir::launch_blocks(s, {.blocks = 1, .threads = 32, .shared_bytes = 128}, TakeTooMuch{}, marker.word());
  insist_device_failed("it is stopped", {"cudaError"}, [&] { s.synchronize(); });
}

//  s:   [hold ......][fails]
//  cpu: wait(s) [skipped]
WEIR_SCENE(the_cpu_waits_for_a_gpu_that_fails) {
  weir::Stream s(weir::device("cuda:0"));
  weir::Stream cpu(weir::device("cpu"));
  Gate gate;
  int calls = 0;
  gate.hold(s);
  weir::launch(s, 1, WriteToNowhere{}, std::uintptr_t{8});
  cpu.wait(s);
  weir::host_call(cpu, [&] { ++calls; });
  gate.open();
  insist_device_failed("the waiting stream fails", {}, [&] { cpu.synchronize(); });
  insist(calls == 0, "what is behind the wait does not run");
  cpu.synchronize();
}

using Sticky = OnGpu;

TEST_F(Sticky, R171_a_failed_kernel_is_reported_by_every_later_call) {
  const Outcome outcome = play("a_kernel_writes_to_nowhere");
  EXPECT_TRUE(ended_well(outcome));
  EXPECT_EQ(outcome.output.find("CUDA"), std::string::npos) << "nothing is printed: " << outcome.output;
}

TEST_F(Sticky, taking_more_shared_memory_than_the_launch_said_stops_the_kernel) {
  EXPECT_TRUE(ended_well(play("a_block_takes_too_much_shared_memory")));
}

TEST_F(Sticky, R171_a_cpu_stream_that_waits_for_a_failed_gpu_fails_and_does_not_hang) {
  EXPECT_TRUE(ended_well(play("the_cpu_waits_for_a_gpu_that_fails")));
}

WEIR_SCENE(all_gpus_are_hidden) {
  insist(weir::devices("cuda").empty(), "no GPU is offered");
  insist(weir::why_absent("cuda").find("CUDA_VISIBLE_DEVICES") != std::string::npos, weir::why_absent("cuda").c_str());
  const auto error = error_of([] { (void)weir::device("cuda:0"); });
  insist(error.has_value() && std::string(error->what()).find("CUDA_VISIBLE_DEVICES") != std::string::npos,
         "the error says why");
}

TEST_F(Sticky, hidden_gpus_are_absent_and_the_error_says_so) {
  EXPECT_TRUE(ended_well(play("all_gpus_are_hidden", {"CUDA_VISIBLE_DEVICES="})));
}

}  // namespace
}  // namespace weir_test
