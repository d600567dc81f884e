// A CPU device of a test's own, on which nothing runs but what the test runs.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <utility>
#include <vector>

#include <weir/weir.hpp>

#include "backends/cpu/cpu_backend.hpp"
#include "backends/cpu/cpu_device.hpp"

namespace weir_test {

class OwnDevice : public testing::Test {
 protected:
  OwnDevice() { device_.pool().stop(); }

  weir::cpu::CpuQueue& open(int priority = 0, bool blocking = false) {
    weir::QueueOptions options;
    options.priority = priority;
    options.blocking = blocking;
    options.label = "a queue of the test";
    return device_.open_queue(options);
  }
  template <class F>
  static weir::Command command_of(F function) {
    weir::Command command;
    command.op = weir::HostCall{new weir::detail::OwnedFunction<F>(std::move(function))};
    return command;
  }
  static void submit_work(weir::cpu::CpuQueue& queue, int commands = 1) {
    for (int i = 0; i < commands; ++i) queue.submit(command_of([] {}));
  }

  weir::cpu::CpuDevice& device_ = make_device();

 private:
  /// Devices live as long as the program.
  static weir::cpu::CpuDevice& make_device() {
    static auto& devices = *new std::vector<weir::cpu::CpuDevice*>;
    return *devices.emplace_back(new weir::cpu::CpuDevice(weir::cpu::backend(), 0, 1, std::size_t{1} << 30));
  }
};

}  // namespace weir_test
