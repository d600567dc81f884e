// The file as a whole: its members, its lists in whatever order they come, and what they declare.
#include "scenario/decoder.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <weir/error.hpp>

namespace weir::scenario {

bool Decoder::is_list(std::string_view member) const {
  return std::find(std::begin(section_names), std::end(section_names), member) != std::end(section_names);
}

void Decoder::list_begins(std::string_view member) {
  given_[std::find(std::begin(section_names), std::end(section_names), member) - std::begin(section_names)] = true;
}

void Decoder::element(std::string_view list, std::size_t index, Value value) {
  const auto section =
      static_cast<Section>(std::find(std::begin(section_names), std::end(section_names), list) - section_names);
  if (later_[section].empty()) {
    try {
      read(section, At(value, list, index));
      return;
    } catch (const NotYet&) {
    }
  }
  // Behind one that has to wait for another list, all wait: they are read in their order.
  const auto bytes_of = [](const Value& part, const auto& self) -> std::size_t {
    std::size_t bytes = part.bytes();
    for (const std::string& key : part.keys) bytes += sizeof(key) + key.capacity();
    for (const Value& item : part.items) bytes += self(item, self);
    return bytes;
  };
  later_bytes_ += 2 * bytes_of(value, bytes_of);
  later_[section].push_back({index, std::move(value)});
}

void Decoder::list_ends(std::string_view member) {
  const auto section = std::find(std::begin(section_names), std::end(section_names), member) - section_names;
  complete_[section] = later_[section].empty();
}

std::size_t Decoder::room() const {
  std::size_t used = recording_.bytes() + later_bytes_ + graphs_.bytes() + scopes_.bytes();
  used += functions_.size() * 6 * sizeof(void*);
  for (const PlaceOf& places : places_) used += places.bytes();
  return used > recording_.limit() ? 0 : recording_.limit() - used;
}

void Decoder::member(std::string_view name, Value value) {
  const At at(value, name);
  if (is_list(name)) at.is_array();
  if (name == "format") {
    if (at.string() != "weir.scenario") at.fault("it must be \"weir.scenario\", and is " + shown(value.text));
    format_ = true;
  } else if (name == "version") {
    if (at.count() != 1) at.fault("only version 1 is known");
    version_ = true;
  } else if (name == "name") {
    recording_.name = text(at);
  } else if (name == "about") {
    recording_.about = text(at);
  } else {
    at.fault("there is no member of this name here");
  }
}

Recording Decoder::finish() {
  const auto need = [](bool there, std::string_view name) {
    if (!there) throw Fault{std::string(name), "it is missing"};
  };
  need(format_, "format");
  need(version_, "version");
  for (const Section section : {streams, buffers, program}) need(given_[section], section_names[section]);
  for (const Section section : {devices, threads}) {
    if (given_[section] && !later_[section].empty()) continue;
    const bool none_there = section == devices ? recording_.devices().empty() : recording_.threads().empty();
    if (given_[section] && none_there) throw Fault{std::string(section_names[section]), "at least one is needed"};
    if (!given_[section]) places_[section].set(recording_.intern(section == devices ? "dev0" : "main"), 0);
  }
  for (std::size_t section = 0; section < section_count; ++section) {
    complete_[section] = true;
    for (const auto& [index, value] : later_[section]) {
      // Nothing is missing any more.
      read(static_cast<Section>(section), At(value, section_names[section], index));
    }
    later_[section] = {};
  }
  return std::move(recording_);
}

void Decoder::read(Section section, const At& at) {
  // What a fault leaves behind does not matter, and what is put off changes nothing before it is known to be whole.
  switch (section) {
    case devices: return device(at);
    case threads: return thread(at);
    case streams: return stream(at);
    case events: return event(at);
    case buffers: return buffer(at);
    case collectives: return collective(at);
    case works: return host_work(at);
    default: return command(at);
  }
}

Name Decoder::new_name(const At& at, Section section) {
  const Name given = name(at);
  if (places_[section].find(given) != none) at.fault(shown(at.string()) + " is there already");
  return given;
}

void Decoder::device(const At& at) {
  at.only({"name", "profile"});
  Device device;
  device.name = new_name(at.member("name"), devices);
  if (at.has("profile")) device.profile = text(at.member("profile"));
  if (recording_.devices().size() == 1024) at.fault("there are more than 1024 devices");
  places_[devices].set(device.name, recording_.add(device));
}

void Decoder::thread(const At& at) {
  const Name given = new_name(at, threads);
  if (recording_.threads().size() == 1 << 20) at.fault("there are more than 1048576 host threads");
  places_[threads].set(given, recording_.add_thread(given));
}

void Decoder::stream(const At& at) {
  at.only({"name", "device", "kind", "priority", "thread", "later"});
  Stream stream;
  stream.name = new_name(at.member("name"), streams);
  if (at.has("device")) stream.device = place(at.member("device"), devices, "device");
  stream.kind = static_cast<StreamKind>(at.member("kind").one_of({"blocking", "non_blocking", "legacy", "per_thread"}));
  if (at.has("priority")) {
    const At priority = at.member("priority");
    const Value& value = priority.value();
    if (value.kind != Value::Kind::negative) static_cast<void>(priority.duration());
    if (std::trunc(value.real) != value.real) priority.fault("it must be a whole number");
    // A device clamps it to its own range (C14), which is far smaller.
    constexpr double most = std::numeric_limits<std::int32_t>::max();
    stream.priority = static_cast<std::int32_t>(std::clamp(value.real, -most, most));
  }
  if (at.has("thread")) stream.thread = place(at.member("thread"), threads, "host thread");
  stream.later = at.has("later") && at.member("later").boolean();
  const bool made_by_nobody = stream.kind == StreamKind::legacy || stream.kind == StreamKind::per_thread;
  if (stream.later && made_by_nobody) at.fault_at("later", "a default stream is there always");
  places_[streams].set(stream.name, recording_.add(stream));
  stream_made_.push_back(!stream.later);
}

void Decoder::event(const At& at) {
  at.only({"name", "device", "timed", "later"});
  Event event;
  event.name = new_name(at.member("name"), events);
  if (at.has("device")) event.device = place(at.member("device"), devices, "device");
  event.timed = at.has("timed") && at.member("timed").boolean();
  event.later = at.has("later") && at.member("later").boolean();
  places_[events].set(event.name, recording_.add(event));
  event_made_.push_back(!event.later);
}

void Decoder::buffer(const At& at) {
  at.only({"name", "kind", "device", "bytes", "owner", "home", "start", "contents"});
  Buffer buffer;
  buffer.name = new_name(at.member("name"), buffers);
  const std::size_t kind = at.member("kind").one_of({"device", "pinned", "pageable"});
  buffer.kind = kind == 0 ? MemoryKind::device : kind == 1 ? MemoryKind::pinned : MemoryKind::pageable;
  if (at.has("device")) buffer.device = place(at.member("device"), devices, "device");
  buffer.bytes = at.member("bytes").count();
  if (at.has("owner")) buffer.owner = static_cast<Owner>(at.member("owner").one_of({"array", "pool", "user"}));
  if (at.has("home")) buffer.home = place(at.member("home"), streams, "stream");
  if (at.has("start")) buffer.later = at.member("start").one_of({"live", "later"}) == 1;
  if (at.has("contents")) buffer.written = at.member("contents").one_of({"written", "unwritten"}) == 0;
  check_buffer(at, buffer);
  places_[buffers].set(buffer.name, recording_.add(buffer));
  buffer_made_.push_back(!buffer.later);
}

void Decoder::check_buffer(const At& at, const Buffer& buffer) const {
  if (buffer.owner == Owner::pool && buffer.kind != MemoryKind::device) {
    at.fault_at("owner", "pools have device memory only");
  }
  if (buffer.owner == Owner::user && buffer.kind == MemoryKind::device) {
    at.fault_at("owner", "memory of the user is host memory");
  }
  if (buffer.owner == Owner::user && buffer.later) at.fault_at("start", "memory of the user is there always");
  if (buffer.home == none) return;
  const Stream& home = recording_.streams()[buffer.home];
  if (home.later) at.fault_at("home", shown(at.member("home").string()) + " is not there at the start");
  if (buffer.kind == MemoryKind::device && home.device != buffer.device) {
    at.fault_at("home", shown(at.member("home").string()) + " is a stream of another device");
  }
}

}  // namespace weir::scenario
