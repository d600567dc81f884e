// `weir devices`: every device with its properties.
#include <fmt/format.h>

#include "session.hpp"

namespace tool {

namespace {

std::string size_text(std::size_t bytes) {
  if (bytes >= std::size_t{1} << 30) return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
  if (bytes >= std::size_t{1} << 20) return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
  return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / (1 << 10));
}

const char* yes(bool value) { return value ? "yes" : "no"; }

std::string describe(weir::Device device) {
  const weir::DeviceProperties& p = device.properties();
  const bool is_default = device == default_device();
  std::string text = fmt::format("{}: {}{}\n", device.name(), p.name, is_default ? "  (default)" : "");
  const auto line = [&text](const char* what, const std::string& value) {
    text += fmt::format("  {:<32}{}\n", what, value);
  };
  line("backend", p.backend);
  const auto [major, minor] = p.compute_capability;
  if (major != 0) line("compute capability", fmt::format("{}.{}", major, minor));
  line(p.backend == "cpu" ? "worker threads" : "multiprocessors", fmt::format("{}", p.multiprocessors));
  line("memory", size_text(p.memory));
  line("last-level cache", size_text(p.cache_bytes));
  line("kernels run concurrently", fmt::format("{}, up to {}", yes(p.concurrent_kernels), p.max_resident_kernels));
  line("copy engines", fmt::format("{}", p.async_engine_count));
  line("stream priorities",
       fmt::format("{} (least) to {} (greatest)", p.stream_priorities.least, p.stream_priorities.greatest));
  line("threads in a block, at most", fmt::format("{}", p.max_threads_per_block));
  line("shared memory of a block", size_text(p.max_shared_bytes_per_block));
  line("stream-ordered memory pools", yes(p.memory_pools));
  line("kernels reach pageable memory", yes(p.kernels_reach_pageable_memory));
  return text;
}

Json to_json(weir::Device device) {
  const weir::DeviceProperties& p = device.properties();
  return {{"device", device.name()},
          {"name", p.name},
          {"backend", p.backend},
          {"default", device == default_device()},
          {"compute_capability", fmt::format("{}.{}", p.compute_capability.major, p.compute_capability.minor)},
          {"multiprocessors", p.multiprocessors},
          {"memory", p.memory},
          {"cache_bytes", p.cache_bytes},
          {"concurrent_kernels", p.concurrent_kernels},
          {"max_resident_kernels", p.max_resident_kernels},
          {"async_engine_count", p.async_engine_count},
          {"stream_priorities", {{"least", p.stream_priorities.least}, {"greatest", p.stream_priorities.greatest}}},
          {"max_threads_per_block", p.max_threads_per_block},
          {"max_shared_bytes_per_block", p.max_shared_bytes_per_block},
          {"memory_pools", p.memory_pools},
          {"kernels_reach_pageable_memory", p.kernels_reach_pageable_memory}};
}

std::string absent_backends() {
  std::string text;
  for (const char* backend : {"cpu", "cuda", "sim"}) {
    const std::string reason = weir::why_absent(backend);
    if (!reason.empty()) text += fmt::format("no {} device: {}\n", backend, reason);
  }
  return text;
}

Exit run(const Session& session) {
  std::vector<weir::Device> devices = listed_devices();
  if (!session.device_name.empty()) devices = {session.device()};
  Json list = Json::array();
  for (const weir::Device device : devices) {
    session.say(describe(device));
    list.push_back(to_json(device));
  }
  if (session.json) session.print(list);
  if (session.device_name.empty()) session.say(absent_backends());
  return Exit::ok;
}

}  // namespace

void add_devices(const Command& app, Session& session) {
  const Command command = app.add("devices", "Lists every device with its properties");
  command.footer(
      "The name before the colon is what --device takes. WEIR_CPU_DEVICES=2 splits the CPU into cpu:0 and cpu:1,\n"
      "WEIR_DEVICE names the default device. Simulated devices have the properties of a GPU and compute on the CPU;\n"
      "sim:h200:1 is a second one, sim:FILE.json is that of a profile of yours.\n"
      "\nExample:  weir devices --json");
  add_common_options(command, session);
  command.when_given([&session] { session.run = [&session] { return run(session); }; });
}

}  // namespace tool
