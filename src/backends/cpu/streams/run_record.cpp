// Running one record: kernels as parallel loops, copies, fills, host functions, time stamps.
#include <chrono>
#include <cstdlib>
#include <memory>

#include "backends/cpu/cpu_device.hpp"
#include "backends/cpu/memory/memory_ops.hpp"
#include "backends/cpu/streams/cpu_queue.hpp"
#include "function_clock.hpp"

namespace weir::cpu {

namespace {

using Clock = std::chrono::steady_clock;

template <class R>
R& as(Record& record) {
  return static_cast<R&>(record);
}

std::string_view name_of(const Kernel& kernel, const char* name) {
  return name != nullptr ? std::string_view(name) : kernel.name;
}

std::size_t closure_alignment(const Kernel& kernel) { return kernel.closure_align > 16 ? kernel.closure_align : 16; }

/// The kernel and closure of a launch of any kind.
struct KernelCall {
  const Kernel* kernel = nullptr;
  const char* name = nullptr;
  void* closure = nullptr;
  const Shape* extent = nullptr;
  BlockRange blocks{};
  SourceLocation where;

  /// For the message of a Weir call inside the kernel: on every thread that takes part.
  void announce() const { detail::running_command = {"a kernel", name_of(*kernel, name), where}; }
};

KernelCall kernel_call(Record& record) {
  KernelCall call;
  call.where = record.where;
  switch (record.kind()) {
    case RecordKind::launch: {
      auto& launch = as<LaunchRecord>(record);
      call.kernel = launch.kernel;
      call.closure = trailing(&launch, 16);
      break;
    }
    case RecordKind::launch_many: {
      auto& launch = as<LaunchManyRecord>(record);
      call.kernel = launch.kernel;
      call.name = launch.name;
      call.closure = trailing(&launch, closure_alignment(*launch.kernel));
      call.extent = &launch.extent;
      break;
    }
    case RecordKind::launch_blocks: {
      auto& launch = as<LaunchBlocksRecord>(record);
      call.kernel = launch.kernel;
      call.name = launch.name;
      call.closure = trailing(&launch, closure_alignment(*launch.kernel));
      call.blocks = BlockRange{launch.sizes, 0, 0, launch.shared_bytes, nullptr};
      break;
    }
    default: break;
  }
  return call;
}

void run_elements(void* context, std::size_t begin, std::size_t end, Runner&) {
  const auto& call = *static_cast<const KernelCall*>(context);
  call.announce();
  call.kernel->run(call.closure, KernelRange{call.extent, begin, end});
}

void run_blocks(void* context, std::size_t begin, std::size_t end, Runner& runner) {
  const auto& call = *static_cast<const KernelCall*>(context);
  call.announce();
  BlockRange range = call.blocks;
  range.begin = begin;
  range.end = end;
  range.memory = &runner.block_memory;
  call.kernel->run_blocks(call.closure, range);
}

void destroy_closure(const KernelCall& call) {
  if (call.kernel != nullptr && call.kernel->destroy != nullptr) call.kernel->destroy(call.closure);
}

std::int64_t now_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

void stamp(Record& record) {
  Stamp* stamp = as<StampRecord>(record).stamp;
  stamp->nanoseconds.store(now_nanoseconds(), std::memory_order_release);
  release_stamp(stamp);
}

}  // namespace

void release_stamp(Stamp* stamp) noexcept {
  if (stamp != nullptr && stamp->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete stamp;
}

/// The commonest record: one element or few, nobody watching.
void CpuQueue::run_in_one(LaunchRecord& launch) {
  const Kernel& kernel = *launch.kernel;
  detail::running_command = {"a kernel", kernel.name, launch.where};
  try {
    kernel.run(trailing(&launch, 16), KernelRange{nullptr, 0, launch.size});
  } catch (...) {
    fail(launch, Errc::kernel_failed, "kernel", kernel.name, std::current_exception());
  }
}

void CpuQueue::run_launch(Record& record, Runner& runner) {
  KernelCall call = kernel_call(record);
  try {
    if (record.kind() == RecordKind::launch_blocks) {
      pool_.run_parallel(&run_blocks, &call, call.blocks.sizes.count, runner, call.kernel);
    } else {
      const std::size_t count = record.kind() == RecordKind::launch ? as<LaunchRecord>(record).size
                                                                    : as<LaunchManyRecord>(record).extent.count();
      pool_.run_parallel(&run_elements, &call, count, runner, call.kernel);
    }
  } catch (...) {
    fail(record, Errc::kernel_failed, "kernel", name_of(*call.kernel, call.name), std::current_exception());
  }
  destroy_closure(call);
}

void CpuQueue::run_record(Record& record, Runner& runner) {
  const bool observed = record.observed();
  const auto begin = observed ? Clock::now() : Clock::time_point{};
  switch (record.kind()) {
    case RecordKind::launch:
    case RecordKind::launch_many:
    case RecordKind::launch_blocks: run_launch(record, runner); break;
    case RecordKind::copy: {
      auto& copy = as<CopyRecord>(record);
      copy_elements(pool_, runner, copy.to, copy.to_layout, copy.from, copy.from_layout);
      if (copy.flag()) std::free(const_cast<void*>(copy.from));
      break;
    }
    case RecordKind::fill: {
      auto& fill = as<FillRecord>(record);
      fill_elements(pool_, runner, fill.to, fill.layout, trailing(&fill, 16));
      break;
    }
    case RecordKind::call: {
      const std::unique_ptr<detail::HostFunction> function(as<CallRecord>(record).function);
      detail::running_command = {record.flag() ? "foreign work" : "a host function", {}, record.where};
      try {
        const detail::FunctionBody body(*function);
        function->call(NativeStream{});
      } catch (...) {
        fail(record, Errc::host_function_failed, record.flag() ? "foreign work" : "host function", {},
             std::current_exception());
      }
      break;
    }
    case RecordKind::stamp: stamp(record); break;
    case RecordKind::ticket: run_ticket(as<TicketRecord>(record), runner); break;
    case RecordKind::share: run_share(as<ShareRecord>(record), runner); break;
    case RecordKind::empty:
    case RecordKind::wait:
    case RecordKind::collective:
    case RecordKind::gather:
    case RecordKind::signal:
    case RecordKind::graph:
    case RecordKind::next_chunk: break;
  }
  if (observed) detail::report_ran(record.id, stream(), {begin, Clock::now()});
}

/// After a failure: nothing runs on bad data, and nothing leaks.
void CpuQueue::skip(Record& record) {
  switch (record.kind()) {
    case RecordKind::launch:
    case RecordKind::launch_many:
    case RecordKind::launch_blocks: destroy_closure(kernel_call(record)); break;
    case RecordKind::copy:
      if (record.flag()) std::free(const_cast<void*>(as<CopyRecord>(record).from));
      break;
    case RecordKind::call: {
      const std::unique_ptr<detail::HostFunction> function(as<CallRecord>(record).function);
      const detail::FunctionBody never_called(*function);
      break;
    }
    case RecordKind::stamp: stamp(record); break;
    default: break;
  }
  if (!record.observed()) return;
  const auto now = Clock::now();
  detail::report_ran(record.id, stream(), {now, now});
}

}  // namespace weir::cpu
