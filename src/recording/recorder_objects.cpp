// The places that objects of a running program have in its recording.
#include "recording/recorder_objects.hpp"

#include <algorithm>
#include <utility>

namespace weir::recorded {

std::uint32_t Objects::thread(std::uint32_t number) {
  if (number == last_thread_) return last_thread_place_;
  if (number == 0) return 0;
  const auto [at, is_new] = threads_.try_emplace(number, 0);
  if (is_new) {
    at->second = sink_.add_thread(names_.text(threads_.size() == 1 ? "main" : "t" + std::to_string(number)));
  }
  last_thread_ = number;
  return last_thread_place_ = at->second;
}

std::uint32_t Objects::device(const weir::Device& of) {
  const std::string name = of.name();
  const auto [at, is_new] = devices_.emplace(name, 0);
  if (!is_new) return at->second;
  at->second = sink_.add(recorded::Device{names_.text(name)});
  if (at->second >= simulated_.size()) simulated_.resize(at->second + 1);
  simulated_[at->second] = of.backend() == "sim";
  return at->second;
}

std::uint32_t Objects::device(const HostWait& wait) {
  for (const auto& [id, known] : streams_) {
    const weir::Device& of_stream = known.info.device;
    if (of_stream.backend() == wait.backend && of_stream.index() == wait.device) return device(of_stream);
  }
  return none;
}

Objects::KnownStream* Objects::known(StreamId id) {
  if (id == last_stream_ && id != 0) return last_known_;
  const auto found = streams_.find(id);
  if (found == streams_.end()) return nullptr;
  last_stream_ = id;
  return last_known_ = &found->second;
}

std::uint32_t Objects::stream(StreamId id, bool later) {
  KnownStream* const found = this->known(id);
  if (found == nullptr) return none;
  KnownStream& known = *found;
  if (known.place != none) return known.place;
  Stream stream;
  // Made-up names are never the same, and would be kept for ever.
  if (!forgets_ || known.info.name.empty()) stream.name = names_.unique(names_.streams, known.info.name, "stream");
  stream.device = device_of(known);
  stream.priority = known.info.priority;
  stream.kind = known.info.legacy     ? StreamKind::legacy
                : known.info.blocking ? StreamKind::blocking
                                      : StreamKind::non_blocking;
  stream.later = later;
  known.name = stream.name;
  return known.place = sink_.add(stream, known.info);
}

std::uint32_t Objects::device_of(StreamId id) {
  KnownStream* const found = known(id);
  return found == nullptr ? 0 : device_of(*found);
}

bool Objects::host_reaches(StreamId id) {
  const KnownStream* const found = known(id);
  return found != nullptr && found->info.device.backend() == "cpu";
}

std::uint32_t Objects::device_of(KnownStream& stream) {
  if (stream.device == none) stream.device = device(stream.info.device);
  return stream.device;
}

std::uint32_t Objects::event(std::uint64_t id, StreamId stream, const void* state) {
  if (const auto known = events_.find(id); known != events_.end()) return known->second;
  if (!forgets_) {
    return events_[id] = sink_.add(Event{names_.text("e" + std::to_string(id)), device_of(stream)});
  }
  if (state == nullptr) return none;  // it was never recorded since there is somebody to tell
  std::uint64_t& whose = event_states_[state];
  std::uint32_t place = none;
  if (const auto before = events_.find(std::exchange(whose, id)); before != events_.end()) {
    if (sink_.forget_event(before->second)) place = before->second;
    events_.erase(before);
  }
  return events_[id] = place != none ? place : sink_.add(Event{none, device_of(stream)});
}

std::uint32_t Objects::closed(StreamId id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return none;
  const std::uint32_t place = found->second.place;
  if (forgets_ && found->second.name != none) names_.give_back(names_.streams, found->second.name);
  streams_.erase(found);
  last_stream_ = 0;
  return place;
}

void Objects::named(BufferId id, std::string_view name) {
  const std::uint32_t place = memory_.place_of(id);
  if (place == none || forgets_) return;
  names_.give_back(names_.buffers, buffers_[place].name);
  buffers_[place].name = names_.unique(names_.buffers, name, "x");
}

void Objects::ended(std::uint32_t place) {
  if (forgets_ && place < buffers_.size() && sink_.forget_buffer(place)) free_places_.push_back(place);
}

void Objects::host_gone(const void* data, std::size_t bytes) {
  memory_.end_ranges(reinterpret_cast<std::uintptr_t>(data), bytes);
}
std::vector<MemoryMap::Part> Objects::parts_of(const void* data, std::size_t bytes) const {
  std::vector<MemoryMap::Part> parts = memory_.parts_of(reinterpret_cast<std::uintptr_t>(data), bytes);
  for (MemoryMap::Part& part : parts) part.range |= range_bit;
  return parts;
}

std::uint32_t Objects::new_buffer(const Alloc& alloc, MemoryKind kind, std::uint32_t device) {
  Buffer buffer;
  if (!forgets_) buffer.name = names_.unique(names_.buffers, "x" + std::to_string(alloc.buffer), "x");
  buffer.device = device;
  buffer.bytes = alloc.bytes;
  buffer.kind = kind;
  buffer.later = true;
  if (alloc.raw) buffer.owner = Owner::pool;
  auto place = static_cast<std::uint32_t>(buffers_.size());
  if (free_places_.empty()) {
    buffers_.push_back(buffer);
  } else {
    place = free_places_.back();
    free_places_.pop_back();
    buffers_[place] = buffer;
  }
  memory_.add(alloc.buffer, alloc.data, alloc.bytes, place);
  return place;
}

void Objects::add_copy(const Copy& copy, std::span<const Region> regions, std::uint32_t device,
                       std::vector<Use>& uses) {
  const std::size_t first = uses.size();
  uses_.add_copy(copy, regions, device, uses);
  for (std::size_t i = first; i < uses.size(); ++i) note_kind(uses[i], i == first ? copy.to_kind : copy.from_kind);
}

void Objects::note_kind(const Use& use, MemoryKind kind) {
  const bool known = use.buffer < buffers_.size();
  if (known && kind == MemoryKind::pinned && buffers_[use.buffer].kind == MemoryKind::pageable) {
    buffers_[use.buffer].kind = kind;
  }
}

void Objects::finish(Recording& recording, const Resolve& resolve) {
  for (const Buffer& buffer : buffers_) recording.add(buffer);
  std::vector<std::uint32_t> places(memory_.ranges().size(), none);
  const auto place_of = [&](std::uint32_t whole) {
    if (places[whole] != none) return places[whole];
    const MemoryMap::Range& range = memory_.ranges()[whole];
    Buffer buffer;
    buffer.name = names_.unique(names_.buffers, range.array ? "array" : "host", "host");
    buffer.owner = range.array ? Owner::array : Owner::user;
    // What kernels use of the user's memory is host memory that they can reach.
    const bool reached = range.kind == MemoryKind::device && !range.array;
    buffer.kind = reached || range.was_pinned ? MemoryKind::pinned : range.kind;
    buffer.device = buffer.kind == MemoryKind::device ? range.device : 0;
    buffer.bytes = std::max<std::uint64_t>(1, range.end - range.begin);
    return places[whole] = recording.add(buffer);
  };
  resolve([&](Use& use) {
    if (use.buffer == none || (use.buffer & range_bit) == 0) return;
    const std::uint32_t whole = memory_.whole(use.buffer & ~range_bit);
    use.buffer = place_of(whole);
    use.offset -= std::min<std::uint64_t>(use.offset, memory_.ranges()[whole].begin);
  });
}

std::size_t Objects::bytes() const {
  constexpr std::size_t entry = 64;          // of a map
  constexpr std::size_t name_of_range = 40;  // its text and places
  return memory_.bytes() + 2 * buffers_.capacity() * sizeof(Buffer) +
         memory_.ranges().size() * (2 * sizeof(Buffer) + name_of_range) + entry * (events_.size() + streams_.size());
}

}  // namespace weir::recorded
