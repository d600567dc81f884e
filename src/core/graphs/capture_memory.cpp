// Memory that is made and ends inside captures. The backend hands it out once, at capture: every replay uses the same
// addresses, so that nothing is allocated and nothing leaks while a graph is replayed. Alloc and Free nodes say when its
// contents begin and end.
#include <algorithm>
#include <memory>
#include <optional>

#include "core/checks.hpp"
#include "core/graphs/capture.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

namespace {

/// Pool memory without an array, made in captures.
WEIR_NEEDS(captures_lock()) std::unordered_map<const void*, std::uint64_t>& raw_memory() {
  static auto& all = *new std::unordered_map<const void*, std::uint64_t>;
  return all;
}
std::atomic<std::size_t> raw_count{0};

void add_memory_node(Recorder& recorder, const Op& op, Storage& storage, SourceLocation where) {
  Command command;
  command.where = where;
  command.op = op;
  auto payload = std::make_shared<Payload>(command);
  payload->keep(storage);
  // The entry comes first: nothing fails once the node is there.
  auto& entries = std::holds_alternative<Alloc>(op) ? recorder.capture->made_by : recorder.capture->freed_by;
  const auto entry = entries.emplace(storage.buffer, 0).first;
  try {
    entry->second = recorder.capture->add(recorder, kind_of(op), std::move(payload), where);
  } catch (...) {
    entries.erase(entry);
    throw;
  }
}

/// Gives back what retain_buffer() gave.
struct Releases {
  void operator()(Storage* storage) const { release(storage); }
};
using Held = std::unique_ptr<Storage, Releases>;

bool uses(const FormNode& node, BufferId buffer) {
  if (!node.payload || node.kind == NodeKind::free) return false;
  const auto& arrays = node.payload->arrays();
  return std::any_of(arrays.begin(), arrays.end(), [&](const Storage* s) { return s->buffer == buffer; });
}

/// Marks a node and everything that it depends on.
void note_ancestors(const GraphForm& form, std::uint32_t node, std::vector<bool>& before) {
  std::vector<std::uint32_t> open{node};
  while (!open.empty()) {
    const std::uint32_t next = open.back();
    open.pop_back();
    if (before[next]) continue;
    before[next] = true;
    open.insert(open.end(), form.nodes[next].depends.begin(), form.nodes[next].depends.end());
  }
}

/// Memory whose uses are all over before anything new on the recorder's stream begins, large enough and not much too
/// large; taken from the list. Only where our nodes are what runs: a driver that captures orders by its own.
Storage* take_ended(Recorder& recorder, const Storage& wanted) {
  Capture& capture = *recorder.capture;
  if (recorder.driver != nullptr || capture.allocates_raw || wanted.bytes == 0) return nullptr;
  std::vector<bool> before;
  auto best = capture.ended.end();
  for (auto one = capture.ended.begin(); one != capture.ended.end(); ++one) {
    const Storage& memory = *one->storage;
    const FormNode& end = capture.form.nodes[one->free];
    const bool here = end.parent == capture.scope.parent && end.branch == capture.scope.branch;
    if (!here || memory.pool != wanted.pool || memory.bytes < wanted.bytes || memory.bytes / 2 > wanted.bytes) continue;
    if (reinterpret_cast<std::uintptr_t>(memory.data) % wanted.alignment != 0) continue;
    if (best != capture.ended.end() && best->storage->bytes <= memory.bytes) continue;
    if (before.empty()) {
      before.resize(capture.form.nodes.size());
      for (const std::uint32_t node : recorder.tails) note_ancestors(capture.form, node, before);
    }
    const bool over =
        std::all_of(end.depends.begin(), end.depends.end(), [&](std::uint32_t node) { return before[node]; });
    if (over) best = one;
  }
  if (best == capture.ended.end()) return nullptr;
  Storage* found = best->storage;
  capture.ended.erase(best);
  return found;
}

/// The node of the present scope that a node is, or is inside of; none if it is elsewhere.
std::optional<std::uint32_t> in_scope(const Capture& capture, std::uint32_t node) {
  for (;;) {
    const FormNode& one = capture.form.nodes[node];
    if (one.parent == capture.scope.parent && one.branch == capture.scope.branch) return node;
    if (one.parent < 0) return std::nullopt;
    node = static_cast<std::uint32_t>(one.parent);
  }
}

/// A Free node behind everything that used the memory, and behind the stream's present end. Nothing depends on it: what
/// the stream does next does not wait for other streams' uses of the memory.
void end_memory(Capture& capture, Storage& storage, Recorder* recorder, SourceLocation where) {
  if (capture.freed_by.contains(storage.buffer)) return;
  Recorder* home = recorder;
  for (Recorder* candidate : capture.recorders) {
    if (home == nullptr && candidate->id == storage.home.id()) home = candidate;
  }
  Recorder nobody;
  nobody.capture = &capture;
  nobody.id = storage.home.id();
  Recorder& from = home != nullptr ? *home : nobody;
  std::vector<std::uint32_t> tails = from.tails;
  std::vector<std::uint32_t> depends;
  if (capture.by_hand || from.scope == capture.scope) depends = tails;
  std::vector<bool> before(capture.form.nodes.size());
  for (const std::uint32_t node : depends) note_ancestors(capture.form, node, before);
  for (auto i = static_cast<std::uint32_t>(capture.form.nodes.size()); i-- > 0;) {
    if (capture.by_hand || !uses(capture.form.nodes[i], storage.buffer)) continue;
    const std::optional<std::uint32_t> user = in_scope(capture, i);
    if (!user || before[*user]) continue;
    depends.push_back(*user);
    note_ancestors(capture.form, *user, before);
  }
  capture.ended.reserve(capture.ended.size() + 1);
  add_memory_node(from, Free{storage.data, storage.bytes, storage.buffer, storage.pool}, storage, where);
  const auto node = static_cast<std::uint32_t>(capture.form.nodes.size() - 1);
  capture.form.nodes[node].depends = std::move(depends);
  if (!capture.by_hand) from.tails = std::move(tails);
  // Made and ended in one body: then it is nobody's in every turn of it.
  const auto made = capture.made_by.find(storage.buffer);
  if (made == capture.made_by.end()) return;  // another graph made it
  const FormNode& begin = capture.form.nodes[made->second];
  const bool one_scope = begin.parent == capture.scope.parent && begin.branch == capture.scope.branch;
  if (one_scope && !capture.by_hand && !capture.raw_contains(storage.buffer)) {
    capture.ended.push_back({storage.base != nullptr ? storage.base : &storage, node});
  }
}

}  // namespace

void allocate_captured(Recorder& recorder, Storage& storage, const char* operation, SourceLocation where) {
  const LockGuard guard(captures_lock());
  if (recorder.capture == nullptr) {
    allocate_device_memory(storage, *storage.queue, operation, where);
    return;
  }
  recorder.capture->check_valid(operation, "stream '" + recorder.name + "'", where);
  storage.captured_in = recorder.capture->id;
  if (Storage* before = take_ended(recorder, storage)) {
    retain(before);
    storage.base = before;
    storage.data = before->data;
    try {
      note_queue(*before, storage.queue, storage.home.id(), storage.device);  // what ends with this life
      add_memory_node(recorder, Alloc{storage.data, storage.bytes, storage.buffer, storage.pool}, storage, where);
    } catch (...) {
      storage.base = nullptr;
      storage.data = nullptr;
      release(before);
      throw;
    }
    return;
  }
  // Not in the stream's own order: replays go to other streams, which know nothing of that order.
  allocate_device_memory(storage, *storage.device->idle, operation, where);
  if (storage.data == nullptr) return;
  try {
    add_memory_node(recorder, Alloc{storage.data, storage.bytes, storage.buffer, storage.pool}, storage, where);
  } catch (...) {
    storage.pool->release_unshared(*storage.device->idle, true, 0, allocation_of(storage), where);
    throw;
  }
}

void* allocate_captured(Recorder& recorder, PoolState& pool, std::size_t bytes, SourceLocation where) {
  const LockGuard guard(captures_lock());
  if (recorder.capture == nullptr) return pool.allocate(*recorder.real, bytes, "weir::Pool::allocate", where);
  if (bytes == 0) return nullptr;
  Capture& capture = *recorder.capture;
  capture.allocates_raw = true;
  Storage* storage = nullptr;
  try {
    storage = make_storage("weir::Pool::allocate", MemoryKind::device, StreamRef(recorder.stream, recorder.id),
                           Shape(bytes), 1, 1, &pool, where);
  } catch (...) {
    capture.allocates_raw = false;
    throw;
  }
  capture.allocates_raw = false;
  const Held held(storage);  // the graph's nodes hold it, too
  recorder.capture->raw[storage->data] = storage->buffer;
  raw_memory()[storage->data] = recorder.capture->id;
  raw_count.fetch_add(1, std::memory_order_release);
  return storage->data;
}

bool free_captured(StreamState& stream, PoolState&, void* data, const char* operation, SourceLocation where) {
  Recorder* capturing = stream.recorder.load(std::memory_order_acquire);
  if (capturing == nullptr && raw_count.load(std::memory_order_acquire) == 0) return false;
  const LockGuard guard(captures_lock());
  if (capturing == nullptr) return raw_memory().contains(data);  // the graph gives it back
  Capture& capture = *capturing->capture;
  capture.check_valid(operation, describe(stream), where);
  const auto found = capture.raw.find(data);
  if (found == capture.raw.end()) {
    throw Error(Errc::invalid_value, operation, describe(stream),
                "this memory was not allocated in the capture: free it outside", where);
  }
  if (capture.freed_by.contains(found->second)) {
    throw Error(Errc::already_freed, operation, describe(stream), "this memory was given back before", where);
  }
  if (const Held storage{retain_buffer(found->second)}) end_memory(capture, *storage, capturing, where);
  return true;
}

void check_free_into(const Storage& storage, StreamRef stream, const char* operation, SourceLocation where) {
  const StreamState& state = *stream.state();
  if (state.recorder.load(std::memory_order_acquire) == nullptr) return;
  const LockGuard guard(captures_lock());
  const Recorder* recorder = state.recorder.load(std::memory_order_relaxed);
  if (recorder == nullptr) return;
  recorder->capture->check_valid(operation, describe(state), where);
  if (storage.captured_in != 0) return;  // by this graph or another one, whose replays begin its contents again
  throw Error(Errc::invalid_value, operation, describe_storage(storage),
              "no graph allocates it, and the capture of stream '" + state.name + "' cannot free it: free it outside",
              where);
}

void note_freed(BufferId buffer, std::uint64_t capture_id, StreamRef stream, SourceLocation where) {
  const LockGuard guard(captures_lock());
  Recorder* recorder = stream.id() != 0 ? stream.state()->recorder.load(std::memory_order_relaxed) : nullptr;
  // The one that was named, perhaps made by hand, or another graph's.
  Capture* capture = recorder != nullptr ? recorder->capture : find_capture(capture_id);
  if (capture == nullptr || capture->broken) return;
  if (const Held storage{retain_buffer(buffer)}) end_memory(*capture, *storage, recorder, where);
}

void note_released(BufferId buffer, std::uint64_t capture_id) noexcept {
  if (active_captures.load(std::memory_order_relaxed) == 0) return;
  const LockGuard guard(captures_lock());
  Capture* capture = find_capture(capture_id);
  if (capture == nullptr || capture->broken || capture->raw_contains(buffer)) return;
  const auto kept = capture->kept.find(buffer);
  Storage* storage = kept == capture->kept.end() ? nullptr : retain_buffer(buffer);
  if (storage == nullptr) return;
  try {
    // Held by nodes, and for this moment here: the program has let go of it.
    if (storage->owners.load(std::memory_order_relaxed) == kept->second + 1)
      end_memory(*capture, *storage, nullptr, {});
  } catch (...) {
    // Without memory for the node the array lives as long as the graph.
  }
  storage->owners.fetch_sub(1, std::memory_order_acq_rel);  // never the last one: nodes hold it
}

void forget_raw_memory(const void* data) noexcept {
  if (raw_count.load(std::memory_order_acquire) == 0) return;
  const LockGuard guard(captures_lock());
  if (raw_memory().erase(data) != 0) raw_count.fetch_sub(1, std::memory_order_release);
}

}  // namespace weir::detail
