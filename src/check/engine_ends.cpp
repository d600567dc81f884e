// The ends of streams, events and memory: what they leave in the engine goes once that nothing can come before or behind it.
#include <algorithm>
#include <utility>

#include "check/state.hpp"

namespace weir::check {

using recorded::StreamKind;

namespace {

/// Fewer are not worth a look at all that may name them.
constexpr std::size_t least_collected = 64;
constexpr std::size_t least_launches = 1024;

}  // namespace

std::uint32_t Engine::add_stream(const StreamFact& fact) {
  if (free_streams_.empty() && dropped_streams_ >= std::max(least_collected, collect_at_)) collect_streams();
  auto made = std::make_unique<Stream>();
  made->fact = fact;
  if (free_streams_.empty()) {
    made->id = static_cast<std::uint32_t>(streams_.size());
    streams_.push_back(nullptr);
  } else {
    made->id = free_streams_.back();
    free_streams_.pop_back();
    made->version = streams_[made->id]->version;  // others have seen it
  }
  const std::uint32_t id = made->id;
  if (fact.kind == StreamKind::legacy) legacy_streams_.push_back(id);
  streams_[id] = std::move(made);
  return id;
}

std::uint32_t Engine::add_event(const std::string& name) {
  events_.emplace_back();
  events_.back().name = name;
  return static_cast<std::uint32_t>(events_.size() - 1);
}

std::uint32_t Engine::add_buffer(const BufferFact& fact) {
  auto made = std::make_unique<Buffer>();
  made->fact = fact;
  made->all_written = fact.kind != MemoryKind::device || (fact.live && fact.written) || !fact.unseen.empty();
  if (free_buffers_.empty()) {
    made->id = static_cast<std::uint32_t>(buffers_.size());
    buffers_.push_back(std::move(made));
    return static_cast<std::uint32_t>(buffers_.size() - 1);
  }
  const std::uint32_t id = free_buffers_.back();
  free_buffers_.pop_back();
  made->id = id;
  buffers_[id] = std::move(made);
  return id;
}

/// Whether all to come is behind what a stream did that is gone: with one order of all calls, once the host is behind it. Then
/// its clock is no longer needed.
bool Engine::over(Stream& stream) {
  if (stream.alive || options_.host_order != HostOrder::observed) return false;
  if (!threads_.front()->clock.covers(stream.clock)) return false;
  stream.working = false;
  stream.clock = {};
  return true;
}

void Engine::drop_stream(const Call& call, std::uint32_t stream) {
  streams_[stream]->alive = false;
  ++dropped_streams_;
  const auto capture = captures_.find(streams_[stream]->capture);
  if (capture != captures_.end() && capture->second->origin == stream) end_capture(call, stream, none);
  // Its work goes on, and nobody waits for it (C7).
  if (!rule(14)) learn(thread(call), streams_[stream]->clock);
  if (streams_[stream]->timeline == no_timeline) return;
  ended_.push_back({streams_[stream]->timeline, streams_[stream]->tick});
  thread(call);
  if (over(*streams_[stream])) std::erase(working_, stream);
}

bool Engine::forget_buffer(std::uint32_t which) {
  Buffer& buffer = *buffers_[which];
  if (buffer.in_graphs || !buffer.guards.empty() || buffer.forgotten) return false;
  buffer = Buffer();
  buffer.id = which;
  buffer.forgotten = true;
  free_buffers_.push_back(which);
  return true;
}

bool Engine::forget_event(std::uint32_t which) {
  Event& event = events_[which];
  if (event.in_graphs || event.capture != 0) return false;
  const std::uint32_t generation = event.generation + 1;
  event = Event();
  event.generation = generation;
  return true;
}

void Engine::note_in_graphs(const GraphNode& node) {
  for (const Use& use : node.uses) buffers_[use.buffer]->in_graphs = true;
  if (node.target == none) return;
  if (node.op == Op::alloc || node.op == Op::free) buffers_[node.target]->in_graphs = true;
  if (node.op == Op::record || node.op == Op::wait) events_[node.target].in_graphs = true;
}

std::vector<bool> Engine::used_sites() const {
  std::vector<bool> used(sites_.size());
  for (const auto& buffer : buffers_) {
    if (buffer->forgotten) continue;
    used[buffer->alloc.site] = true;
    used[buffer->freed.site] = true;
    buffer->history.each([&](const Access& access) { used[access.site] = true; });
  }
  for (const auto& [id, scope] : scopes_) used[scope.access.site] = true;
  return used;
}

std::uint32_t Engine::add_site(Site site) {
  ++launch_sites_;
  if (free_sites_.empty()) {
    sites_.push_back(std::move(site));
    return static_cast<std::uint32_t>(sites_.size() - 1);
  }
  const std::uint32_t place = free_sites_.back();
  free_sites_.pop_back();
  sites_[place] = std::move(site);
  return place;
}
void Engine::give_site_back(std::uint32_t site) {
  --launch_sites_;
  sites_[site] = Site();
  free_sites_.push_back(site);
}

/// Each launch of a graph has sites of its own, which go with the last access that names them.
void Engine::collect_sites() {
  if (launch_sites_ < std::max(least_launches, collect_sites_at_)) return;
  const std::vector<bool> used = used_sites();
  for (std::uint32_t i = 1; i < sites_.size(); ++i) {
    if (!used[i] && sites_[i].version != nullptr) give_site_back(i);
  }
  // To look takes as long as there are accesses.
  collect_sites_at_ = 2 * launch_sites_ + history_size() / 16;
}

/// Streams that are gone and over give their places back, where no access, event or memory names them, with the lines that only
/// they had.
void Engine::collect_streams() {
  dropped_streams_ = 0;
  std::erase_if(working_, [this](std::uint32_t one) { return over(*streams_[one]); });
  const std::vector<bool> used_site = used_sites();
  std::vector<bool> used(streams_.size());
  const auto use = [&](std::uint32_t stream) {
    if (stream != none) used[stream] = true;
  };
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    if (used_site[i]) use(sites_[i].stream);
  }
  for (const auto& buffer : buffers_) {
    if (!buffer->forgotten) use(buffer->fact.home);
  }
  for (const Event& event : events_) {
    use(event.stream);
    use(event.stream_before);
  }
  for (const auto& [id, graph] : graphs_) {
    for (const GraphNode& node : graph->version->nodes()) use(node.stream);
  }
  for (const auto& [id, capture] : captures_) {
    for (const GraphNode& node : capture->nodes) use(node.stream);
  }
  use(stream_event_->stream);
  use(stream_event_->stream_before);
  const auto gone = [&](std::uint32_t id) {
    const Stream& stream = *streams_[id];
    return !stream.alive && !stream.working && !stream.forgotten && stream.capture == 0 && !used[id] &&
           (stream.timeline == no_timeline || stream.clock.size() == 0);
  };
  std::vector<bool> goes(streams_.size());
  for (std::uint32_t id = 0; id < streams_.size(); ++id) {
    goes[id] = gone(id);
    if (!streams_[id]->alive && !streams_[id]->forgotten && !goes[id]) ++dropped_streams_;
  }
  collect_at_ = 2 * dropped_streams_;
  const auto names_one = [&](std::uint32_t stream) { return stream != none && goes[stream]; };
  std::erase_if(site_table_,
                [&](const auto& entry) { return !used_site[entry.second] && names_one(sites_[entry.second].stream); });
  for (std::uint32_t i = 1; i < sites_.size(); ++i) {
    if (used_site[i] || !names_one(sites_[i].stream)) continue;
    if (sites_[i].version != nullptr) {
      give_site_back(i);
      continue;
    }
    sites_[i] = Site();
    free_sites_.push_back(i);
  }
  for (const auto& stream : streams_) {
    std::erase_if(stream->waits,
                  [&](const Stream::Waited& one) { return names_one(one.other) || names_one(one.before); });
  }
  for (const auto& thread : threads_) {
    std::erase_if(thread->waits, [&](const HostWait& one) { return names_one(one.stream); });
  }
  for (const auto& buffer : buffers_) {
    for (std::size_t word = 0; word < buffer->users.size(); ++word) {
      for (std::size_t bit = 0; bit < 64; ++bit) {
        const std::size_t id = 64 * word + bit;
        if (id < goes.size() && goes[id]) buffer->users[word] &= ~(std::uint64_t{1} << bit);
      }
    }
  }
  for (std::uint32_t id = 0; id < streams_.size(); ++id) {
    if (!goes[id]) continue;
    const std::uint64_t version = streams_[id]->version;
    *streams_[id] = Stream();
    streams_[id]->id = id;
    streams_[id]->version = version;
    streams_[id]->alive = false;
    streams_[id]->forgotten = true;
    free_streams_.push_back(id);
  }
}

void Engine::skip(const std::string& what, const std::string& why, std::uint64_t count) {
  for (Unchecked& one : unchecked_) {
    if (one.what == what && one.why == why) {
      one.count += count;
      return;
    }
  }
  unchecked_.push_back({what, why, count});
}

void Engine::forget_uses() {
  const std::size_t uses = history_size();
  if (uses == 0) return;
  skip("earlier uses of memory", "the memory limit was reached: what races with them is not told", uses);
  for (const auto& buffer : buffers_) {
    buffer->history.clear();
    buffer->written.clear();
    buffer->all_written = true;
  }
}

std::size_t Engine::history_bytes() const {
  std::size_t all = sites_.capacity() * sizeof(Site);
  for (const auto& buffer : buffers_) all += buffer->history.bytes();
  return all;
}
std::size_t Engine::history_size() const {
  std::size_t all = 0;
  for (const auto& buffer : buffers_) all += buffer->history.size();
  return all;
}

}  // namespace weir::check
