// Programs for the model, made call by call, on a device of round numbers.
#pragma once

#include <cstdint>

#include <gtest/gtest.h>

#include "backends/sim/model/profile.hpp"
#include "backends/sim/model/program.hpp"
#include "backends/sim/model/simulate.hpp"

namespace predict_test {

using namespace weir::sim::model;

/// Nothing but engines takes time: 1,000 bytes a microsecond both ways, 2 multiprocessors of 1,024 threads and 4 blocks.
inline Profile simple() {
  Profile profile;
  profile.name = "simple";
  profile.sms = 2;
  profile.threads_per_sm = 1024;
  profile.blocks_per_sm = 4;
  profile.shared_bytes_per_sm = 1000;
  profile.resident_kernels = 8;
  profile.work_queues = 8;
  profile.pending_commands = 1021;
  profile.copy_engines = 2;
  profile.link = {1, 1, 1, 0, 0, 0, 2};
  profile.pageable = {0.5, 0.5, 0, 0, 100};
  profile.memory = {4, 1, 0.5, 0, 0, 0};
  return profile;
}

class ModelTest : public testing::Test {
 protected:
  std::uint32_t stream(Stream::Kind kind = Stream::Kind::non_blocking, std::int32_t priority = 0,
                       std::uint32_t device = 0) {
    program.streams.push_back({device, priority, kind});
    return static_cast<std::uint32_t>(program.streams.size() - 1);
  }
  std::uint32_t task(Task task) {
    program.tasks.push_back(task);
    return static_cast<std::uint32_t>(program.tasks.size() - 1);
  }
  void call(Action action, std::uint32_t stream, std::uint32_t target = none, double us = 0, std::uint32_t thread = 0) {
    program.calls.push_back({action, thread, stream, target, none, us});
  }
  void enqueue(std::uint32_t stream, Task what) {
    program.calls.push_back({Action::enqueue, 0, stream, none, task(what), 0});
  }
  void kernel(std::uint32_t stream, double us, std::uint32_t blocks = 1, std::uint32_t threads = 256) {
    Task made;
    made.work = Work::kernel;
    made.block_us = us;
    made.blocks = blocks;
    made.threads = threads;
    enqueue(stream, made);
  }
  void copy(std::uint32_t stream, Work work, double bytes, bool pageable = false) {
    Task made;
    made.work = work;
    made.bytes = bytes;
    made.pageable = pageable;
    enqueue(stream, made);
  }
  Result run() { return simulate(program, profile); }
  void expect(const Result& result, std::size_t span, double begin, double end) {
    EXPECT_NEAR(result.spans[span].begin, begin, 1e-9) << span;
    EXPECT_NEAR(result.spans[span].end, end, 1e-9) << span;
  }

  Profile profile = simple();
  Program program;
};

}  // namespace predict_test
