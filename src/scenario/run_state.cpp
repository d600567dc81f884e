// A running scenario begins and ends: everything is made that is there at the start, and given back at the end.
#include "scenario/run_state.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <set>
#include <utility>

#include <weir/error.hpp>
#include <weir/sim.hpp>

// Commands of this run may use the same memory still, from before a free: they write zeros, too.
#define WEIR_WRITES_WHAT_IS_THERE __attribute__((no_sanitize("thread")))

namespace weir::scenario {

namespace {

constexpr const char* operation = "weir::run_scenario";
constexpr std::size_t most_threads = 1024;  // they all live as long as the run

/// Failures may name a line long after the run: the names of files stay.
const char* kept(const std::string& file) {
  static std::mutex mutex;
  static auto* const files = new std::set<std::string>();
  const std::lock_guard lock(mutex);
  return files->insert(file).first->c_str();
}

}  // namespace

HandOffs::Count& HandOffs::count_of(recorded::Name name) {
  const std::lock_guard lock(mutex_);
  return counts_[name];
}
void HandOffs::promise(recorded::Name name) {
  const std::lock_guard lock(mutex_);
  ++counts_[name].promised;
}
void HandOffs::give(recorded::Name name, SourceLocation where) {
  count_of(name).told.give(where);  // before anybody may take it
  give_up(name);
}
void HandOffs::give_up(recorded::Name name) {
  const std::lock_guard lock(mutex_);
  ++counts_[name].given;
  changed_.notify_all();
}
void HandOffs::take(recorded::Name name, SourceLocation where) {
  Count& count = count_of(name);
  {
    std::unique_lock lock(mutex_);
    const std::size_t wanted = count.promised;
    changed_.wait(lock, [&] { return count.given >= wanted; });
  }
  count.told.take(where);
}

namespace {

/// Simulated devices of one profile.
std::vector<Device> alike(Device first, std::size_t count) {
  std::vector<Device> all{first};
  for (std::size_t i = 1; all.size() < count; ++i) {
    const Device next = weir::device(first.name() + ":" + std::to_string(i));
    if (next != first) all.push_back(next);
  }
  return all;
}

}  // namespace

RunState::RunState(const Recording& recording, const RunOptions& options)
    : recording_(recording), file_(kept(options.file)), longest_(options.longest_ns), costs_last_(options.costs) {
  if (recording.threads().size() > most_threads) {
    throw Error(Errc::invalid_value, operation, std::to_string(recording.threads().size()) + " host threads",
                "at most " + std::to_string(most_threads) + " can run at a time", {});
  }
  for (std::size_t i = 0; i < recording.size(); ++i) {
    const auto cost = recording.cost(recording.command(i));
    if (cost && duration(cost) > longest_) {
      throw Error(Errc::invalid_value, operation, "command " + recording.id(i),
                  "it would last longer than " + std::to_string(longest_ / 1e9) + " s", where(i));
    }
  }
  check_nodes();
  const Device first = weir::device(options.device, {});
  const std::size_t needed = devices_of(recording);
  const std::vector<Device> all = first.backend() == "sim" ? alike(first, needed) : weir::devices(first.backend());
  const std::size_t begin = first.backend() == "sim" ? 0 : static_cast<std::size_t>(first.index());
  if (all.size() < begin + needed) {
    throw Error(Errc::unknown_device, operation, options.file,
                "it needs " + std::to_string(needed) + " devices from " + first.name() + " on, and there are " +
                    std::to_string(all.size() - begin) +
                    (first.backend() == "cpu" ? ": WEIR_CPU_DEVICES splits the CPU into more" : ""),
                {});
  }
  devices_.assign(all.begin() + static_cast<std::ptrdiff_t>(begin),
                  all.begin() + static_cast<std::ptrdiff_t>(begin + needed));
  own_streams_.resize(needed);
  pools_.resize(needed);
  streams_.resize(recording.streams().size());
  events_.resize(recording.events().size());
  buffers_.resize(recording.buffers().size());
}

void RunState::start() {
  for (const Device from : devices_) {
    for (const Device to : devices_) {
      if (from == to || !can_access_peer(from, to) || peer_access_enabled(from, to)) continue;
      enable_peer_access(from, to);
      peers_.emplace_back(from, to);
    }
  }
  for (std::uint32_t i = 0; i < streams_.size(); ++i) {
    if (!recording_.streams()[i].later) make_stream(i, {file_, 1});
  }
  for (std::uint32_t i = 0; i < events_.size(); ++i) {
    if (!recording_.events()[i].later) make_event(i, {file_, 1});
  }
  bool filled = false;
  for (std::uint32_t i = 0; i < buffers_.size(); ++i) {
    if (recording_.buffers()[i].later) continue;
    make_buffer(i);
    filled = true;
  }
  if (!filled) return;
  for (const Device device : devices_) device.synchronize({file_, 1});
}

RunState::~RunState() {
  if (!finished_) finish();
  scopes_.clear();
  graphs_.clear();
  for (void* const data : pinned_) {
    try {
      unpin(data);
    } catch (const Error&) {  // the device failed
    }
  }
  pinned_.clear();
  buffers_.clear();
  for (void* const data : user_memory_) std::free(data);
  user_memory_.clear();
  events_.clear();
  streams_.clear();
  pools_.clear();
  own_streams_.clear();
  for (const auto& [from, to] : peers_) {
    try {
      disable_peer_access(from, to);
    } catch (const Error&) {
    }
  }
  peers_.clear();
}

std::vector<std::string> RunState::finish() {
  finished_ = true;
  // A capture that the list leaves open would forbid to wait.
  for (const RunStream& stream : streams_) {
    try {
      if (stream.own && is_capturing(stream.ref)) static_cast<void>(capture_end(stream.ref));
    } catch (const Error&) {
    }
  }
  std::vector<std::string> failures;
  for (const Device device : devices_) {
    try {
      device.synchronize({file_, static_cast<std::uint32_t>(recording_.size() + 1)});
    } catch (const Error& error) {
      failures.push_back(error.what());
    }
  }
  return failures;
}

SourceLocation RunState::where(std::size_t place) const {
  const SourceLocation made = recording_.where(place, file_);
  return {made.file_name() == file_ ? file_ : kept(made.file_name()), made.line()};
}
SourceLocation RunState::where(const recorded::Node& node, SourceLocation command) const {
  return {node.file == recorded::none ? command.file_name() : kept(recording_.text(node.file)),
          node.line == recorded::none ? command.line() : node.line};
}

double RunState::duration(const std::optional<recorded::Cost>& cost) const {
  return !cost || !costs_last_ ? 0 : cost->ns ? *cost->ns : cost->block_ns.value_or(0);
}

double RunState::computing(const char* name, const std::optional<recorded::Cost>& cost,
                           std::span<const recorded::Use> uses) {
  if (!simulated()) return duration(cost);
  const std::lock_guard lock(costs_);
  if (!cost && !costed_.contains(std::string_view(name))) return 0;
  recorded::Cost known;
  if (cost) {
    known = *cost;
  } else {
    // As if nobody had ever said what it costs.
    known.bytes = 0;
    for (const recorded::Use& use : uses) {
      const bool both = use.access == recorded::Access::inout || use.access == recorded::Access::accumulate;
      *known.bytes += use.total() * (both ? 2 : 1);
    }
  }
  costed_.emplace(name);
  sim::set_cost(name, known);
  return 0;
}

double RunState::computing(SourceLocation where, const std::optional<recorded::Cost>& cost,
                           std::span<const recorded::Use> uses) {
  const std::string_view path = where.file_name();
  const std::string line = std::string(path.substr(path.rfind('/') + 1)) + ":" + std::to_string(where.line());
  return computing(line.c_str(), cost, uses);
}

void RunState::work(double ns) const {
  if (!simulated()) return spin(ns);
  sim::host_work(std::chrono::nanoseconds(static_cast<std::int64_t>(ns)));
}

void RunState::thread_begins(std::uint32_t thread) {
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const recorded::Stream& declared = recording_.streams()[i];
    if (declared.kind != recorded::StreamKind::per_thread || declared.thread != thread) continue;
    streams_[i].ref = per_thread_stream(device(declared.device));
  }
}

void RunState::make_stream(std::uint32_t place, SourceLocation where) {
  const recorded::Stream& declared = recording_.streams()[place];
  RunStream& made = streams_[place];
  switch (declared.kind) {
    case recorded::StreamKind::legacy: made.ref = legacy_stream(device(declared.device), where); return;
    case recorded::StreamKind::per_thread: return;
    default:
      made.own.emplace(device(declared.device),
                       StreamOptions{.priority = declared.priority,
                                     .blocking = declared.kind == recorded::StreamKind::blocking,
                                     .name = recording_.text(declared.name)},
                       where);
      made.ref = *made.own;
  }
}

void RunState::make_event(std::uint32_t place, SourceLocation where) {
  const recorded::Event& declared = recording_.events()[place];
  RunEvent& made = events_[place];
  if (declared.timed) {
    made.timed.emplace(device(declared.device), where);
    made.ref = *made.timed;
  } else {
    made.plain.emplace(device(declared.device), where);
    made.ref = *made.plain;
  }
}

StreamRef RunState::own_stream(std::uint32_t place) {
  if (!own_streams_[place]) own_streams_[place].emplace(device(place), StreamOptions{.name = "own"});
  return *own_streams_[place];
}

PoolRef RunState::pool(std::uint32_t place) {
  // It keeps what is freed, so that a use after the free, which is what some scenarios are about, finds memory.
  if (!pools_[place]) {
    pools_[place].emplace(device(place), PoolOptions{.release_threshold = static_cast<std::size_t>(-1)});
  }
  return *pools_[place];
}

void RunState::make_buffer(std::uint32_t place) {
  const recorded::Buffer& buffer = declared(place);
  const SourceLocation where(file_, 0);  // of no command
  if (buffer.owner == recorded::Owner::user) {
    void* const data = std::calloc(buffer.bytes == 0 ? 1 : buffer.bytes, 1);
    if (data == nullptr) throw std::bad_alloc();
    user_memory_.push_back(data);
    buffers_[place].data = static_cast<Byte*>(data);
    if (buffer.kind == MemoryKind::pinned && buffer.bytes > 0) {
      pin(data, buffer.bytes, where);
      pinned_.push_back(data);
    }
    return;
  }
  const StreamRef home = buffer.kind != MemoryKind::device ? StreamRef()
                         : buffer.home != recorded::none   ? stream(buffer.home)
                                                           : own_stream(buffer.device);
  allocate(place, home, where);
  if (buffer.bytes == 0) return;
  if (!buffer.written) return;
  if (buffer.owner == recorded::Owner::pool) {
    fill(home, View<Byte, 1>(buffers_[place].data, buffer.bytes), Byte{0}, where);
  } else if (buffer.kind == MemoryKind::device) {
    fill(home, buffers_[place].array, Byte{0}, where);
  } else {
    std::fill_n(buffers_[place].data, buffer.bytes, Byte{0});
  }
}

void RunState::allocate(std::uint32_t place, StreamRef stream, SourceLocation where) {
  const recorded::Buffer& buffer = declared(place);
  RunBuffer& made = buffers_[place];
  if (buffer.owner == recorded::Owner::pool) {
    made.data = static_cast<Byte*>(pool(buffer.device).allocate(stream, buffer.bytes, where));
    return make_zeros(place);
  }
  const Place at = buffer.kind == MemoryKind::device   ? Place(stream, where)
                   : buffer.kind == MemoryKind::pinned ? Place(pinned, where)
                                                       : Place(host, where);
  made.array = empty<Byte>(at, Shape(buffer.bytes));
  if (buffer.bytes > 0) made.array.set_name(recording_.text(buffer.name), where);
  made.data = made.array.data();
  make_zeros(place);
}

/// Which no command has written: what a condition reads there must not depend on who had the memory before.
WEIR_WRITES_WHAT_IS_THERE void RunState::make_zeros(std::uint32_t place) {
  const recorded::Buffer& buffer = declared(place);
  const std::string_view backend = device(buffer.device).backend();
  if (buffer.kind == MemoryKind::device && backend != "cpu" && backend != "sim") return;
  volatile Byte* const data = buffers_[place].data;
  if (data == nullptr) return;
  for (std::uint64_t i = 0; i < buffer.bytes; ++i) data[i] = Byte{0};
}

}  // namespace weir::scenario
