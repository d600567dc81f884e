// The seam's defaults. Not in the header: a compiler that sees those of launches guesses that every queue has them, and tests for
// it on the hot path.
#include <span>
#include <string>
#include <utility>

#include <weir/kernel.hpp>

#include "backend.hpp"
#include "failure_reports.hpp"

namespace weir {

void Queue::launch(StreamId stream, const Kernel& kernel, const void* closure, std::size_t size,
                   const detail::LaunchSite& site) {
  submit(Command{0, stream, site.where, std::span<const Region>(site.uses, kernel.regions),
                 Launch{&kernel, closure, Shape(size), 0, 0, 0, nullptr}});
}
void Queue::launch_empty(StreamId stream, const Kernel& kernel, const void* closure, std::size_t size,
                         const detail::LaunchSite& site) {
  launch(stream, kernel, closure, size, site);
}
void Queue::launch_32(StreamId stream, const Kernel& kernel, const void* closure, std::size_t size,
                      const detail::LaunchSite& site) {
  launch(stream, kernel, closure, size, site);
}
void Queue::launch_64(StreamId stream, const Kernel& kernel, const void* closure, std::size_t size,
                      const detail::LaunchSite& site) {
  launch(stream, kernel, closure, size, site);
}

void Queue::record(detail::EventState& event, SourceLocation where) {
  submit(Command{0, 0, where, {}, Record{&event, event.id.load(std::memory_order_relaxed)}});
}
void Queue::wait(detail::EventState& event, SourceLocation where) {
  submit(Command{0, 0, where, {}, Wait{&event, event.id.load(std::memory_order_relaxed)}});
}

KernelFacts Backend::kernel_facts(int device, const Kernel&, const char*, SourceLocation) {
  const DeviceProperties limits = properties(device);
  KernelFacts facts;
  facts.max_threads = limits.max_threads_per_block;
  facts.max_shared_bytes = limits.max_shared_bytes_per_block;
  return facts;
}

std::unique_ptr<detail::Signal> Queue::wait_for_signal(const Command& command) {
  throw Error(Errc::not_supported, "weir::Stream::wait", "an event of another backend",
              "streams of this backend wait for events of their own backend alone", command.where);
}

void Queue::signal_after(StreamId, std::unique_ptr<detail::Signal>& signal) { std::exchange(signal, nullptr)->give(); }

std::pair<int, std::string> Backend::open_named(const std::string&) {
  throw std::string("its devices have numbers, no names");
}

detail::GraphExecutable* Backend::instantiate(int, const detail::GraphForm&, void*, SourceLocation where) {
  throw Error(Errc::not_supported, "weir::Graph", std::string(name()), "this backend has no graphs", where);
}

namespace detail {

void EventState::synchronize(const char*, SourceLocation) {
  if (const auto error = failure()) throw_seen(*error);
}
Milliseconds EventState::elapsed_since(EventState&, SourceLocation where) {
  throw Error(Errc::not_supported, "weir::elapsed", std::string(backend->name()), "this backend takes no times", where);
}
void EventState::signal_after(std::unique_ptr<Signal>& signal, SourceLocation) {
  std::exchange(signal, nullptr)->give(failure(), 0);
}

void PoolState::release_unshared(Queue& queue, bool open, StreamId owner, void* data, SourceLocation where) {
  QueuePlaces nobody_else;
  release(queue, open, owner, nobody_else, data, where);
}

}  // namespace detail

}  // namespace weir
