// A running program's commands for the engine: memory by the engine's numbers, and with names for people.
#include "checker/live_engine.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

#include "check/commands.hpp"

namespace weir::check {

using recorded::range_bit;
using recorded::Target;

namespace {

/// Stable between machines, for names and keys.
std::string line_of(const Call& call) {
  const std::string_view file = call.file;
  return std::string(file.substr(file.rfind('/') + 1)) + ":" + std::to_string(call.line);
}

/// Whether the program may call it so: the library makes up names for what has none, and for what it makes or wraps itself.
bool is_in_the_code(const StreamInfo& stream) {
  const auto fits = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr("_.[]", c); };
  return stream.where && !stream.wrapped && stream.name != std::to_string(stream.id) &&
         std::all_of(stream.name.begin(), stream.name.end(), fits);
}

void grow(std::vector<std::uint32_t>& places, std::uint32_t place) {
  if (places.size() <= place) places.resize(place + 1, none);
}

}  // namespace

EngineOptions LiveEngine::engine_options(const CheckOptions& options, std::function<void(Finding)> found) {
  EngineOptions made;
  made.host_order = options.host_order;
  made.hints = options.hints;
  made.leaks = options.leaks;
  made.keys_by_line = true;
  made.gives_later = true;
  made.command_text = [](std::uint64_t id) { return id == 0 ? std::string() : std::to_string(id); };
  made.device_text = [this](std::uint32_t place) { return place < devices_.size() ? devices_[place] : "cpu"; };
  made.thread_text = [this](std::uint32_t place) { return threads_.size() < 2 ? std::string() : threads_[place]; };
  made.graph_text = [this](std::uint32_t name) { return std::string(texts_[name]); };
  made.found = [this, found = std::move(found)](Finding finding) {
    // Ranges of the host's memory are kept by their addresses.
    const std::uint64_t id = finding.buffer ? finding.buffer->id : none;
    if (id < range_of_.size() && range_of_[id] != none) {
      const recorded::MemoryMap::Range& range = objects_->memory().ranges()[range_of_[id]];
      for (auto& [begin, end] : finding.bytes) {
        begin -= range.begin;
        end -= range.begin;
      }
      finding.buffer->bytes = range.end - range.begin;
    }
    if (finding.mend) {  // the code says it: there is no scenario to insert anything into
      finding.mend->insert.clear();
      finding.mend->edges.clear();
    }
    found(std::move(finding));
  };
  return made;
}

LiveEngine::LiveEngine(const CheckOptions& options, std::function<void(Finding)> found)
    : budget_(options.memory_limit), engine_(engine_options(options, std::move(found))) {}

std::uint32_t LiveEngine::add_thread(recorded::Name name) {
  threads_.emplace_back(texts_[name]);
  return static_cast<std::uint32_t>(threads_.size() - 1);
}
std::uint32_t LiveEngine::add(const recorded::Device& device) {
  devices_.emplace_back(texts_[device.name]);
  return static_cast<std::uint32_t>(devices_.size() - 1);
}
std::uint32_t LiveEngine::add(const recorded::Stream& stream, const StreamInfo& info) {
  StreamFact fact;
  fact.name = info.name.empty() ? texts_[stream.name] : info.name;
  fact.device = stream.device;
  fact.kind = stream.kind;
  if (info.wrapped) fact.unseen = "it is somebody else's, who may order it";
  if (info.shared.line() != 0) fact.unseen = "its native handle was taken";
  fact.file = info.where.file_name();
  fact.line = info.where.line();
  if (!is_in_the_code(info)) fact.code = "<stream \"" + fact.name + "\">";
  return engine_.add_stream(fact);
}
// The library's events have no names: they are told by where they were recorded.
std::uint32_t LiveEngine::add(const recorded::Event&) { return engine_.add_event(""); }

bool LiveEngine::forget_buffer(std::uint32_t place) {
  if (place >= buffers_.size() || buffers_[place].engine == none) return true;
  if (!engine_.forget_buffer(buffers_[place].engine)) return false;
  buffers_[place] = {};
  return true;
}

Call LiveEngine::call_of(const recorded::Command& command, CommandId id) const {
  if (command.file == none) return {command.thread, id, "", 0};
  return {command.thread, id, texts_[command.file], command.line};
}

std::uint32_t LiveEngine::make_or_update(std::uint32_t place, const Call& call) {
  if (place == none) return none;
  const auto add = [this](const std::string& name, MemoryKind kind, recorded::Owner owner, std::uint32_t device) {
    BufferFact fact;
    fact.name = name;
    fact.kind = kind;
    fact.owner = owner;
    fact.device = device;
    return engine_.add_buffer(fact);
  };
  if ((place & range_bit) != 0) {
    const std::uint32_t whole = objects_->memory().whole(place & ~range_bit);
    const recorded::MemoryMap::Range& range = objects_->memory().ranges()[whole];
    grow(ranges_, whole);
    if (ranges_[whole] == none) {
      ranges_[whole] = add((range.array ? "array used at " : "memory used at ") + line_of(call), range.kind,
                           range.array ? recorded::Owner::array : recorded::Owner::user, range.device);
      grow(range_of_, ranges_[whole]);
      range_of_[ranges_[whole]] = whole;
    }
    for (const std::vector<std::uint32_t>& merged = objects_->memory().merged(); merges_seen_ < merged.size();) {
      const std::uint32_t part = merged[merges_seen_++];
      if (part >= ranges_.size() || ranges_[part] == none) continue;
      const std::uint32_t into = objects_->memory().whole(part);
      if (into < ranges_.size() && ranges_[into] != none) engine_.absorb_buffer(ranges_[into], ranges_[part]);
    }
    BufferFact& fact = engine_.buffer_fact(ranges_[whole]);
    fact.kind = range.kind;
    fact.bytes = range.end;
    if (!range.array && range.line != engine_.pinned_at(ranges_[whole])) {
      const char* const file = range.line == 0 ? "" : texts_[range.file];
      fact.name = range.line == 0 ? "memory used at " + line_of(call)
                                  : "memory pinned at " + line_of({.file = file, .line = range.line});
      engine_.set_pinned(ranges_[whole], file, range.line);
    }
    return ranges_[whole];
  }
  const recorded::Buffer& known = objects_->buffer(place);
  if (buffers_.size() <= place) buffers_.resize(place + 1);
  Known& made = buffers_[place];
  if (made.engine == none) {
    made.engine = add("memory made at " + line_of(call), known.kind, known.owner, known.device);
    engine_.buffer_fact(made.engine).bytes = known.bytes;
  }
  made.kind = known.kind;
  engine_.buffer_fact(made.engine).kind = known.kind;
  return made.engine;
}

std::vector<Use> LiveEngine::here(std::span<const Use> uses, const Call& call) {
  std::vector<Use> made(uses.begin(), uses.end());
  for (Use& use : made) use.buffer = buffer(use.buffer, call);
  return made;
}

std::vector<recorded::Node> LiveEngine::here(std::span<const recorded::Node> nodes, const Call& call) {
  std::vector<recorded::Node> made(nodes.begin(), nodes.end());
  for (recorded::Node& node : made) {
    Call at = call;
    if (node.file != none) at = {call.thread, call.command, texts_[node.file], node.line};
    if (node.target_kind == Target::buffer) node.target = buffer(node.target, at);
    node.uses = here(node.uses, at);
    for (std::vector<recorded::Node>& body : node.bodies) body = here(body, at);
  }
  return made;
}

std::size_t LiveEngine::add(const recorded::Command& command, const recorded::Details& details, CommandId id) {
  Call call = call_of(command, id);
  call.collective = !collectives_.empty() && collectives_.erase(id) != 0;
  recorded::Command made = command;
  if (command.target_kind == Target::buffer) made.target = buffer(command.target, call);
  uses_.assign(details.uses.begin(), details.uses.end());
  for (Use& use : uses_) use.buffer = buffer(use.buffer, call);
  const std::vector<recorded::Node> nodes = here(details.nodes, call);
  tell(engine_, call, made, {.uses = uses_, .nodes = nodes, .collective = details.collective},
       [this](recorded::Name name) { return name == none ? "" : texts_[name]; });
  return commands_++;
}

void LiveEngine::try_command(const recorded::Command& command, std::span<const Use> given, CommandId id,
                             const std::optional<recorded::Collective>& collective) {
  const Call call = call_of(command, id);
  const std::vector<Use> uses = here(given, call);
  if (command.op == Op::host_open) {
    if (!uses.empty()) engine_.try_open(call, uses.front());
  } else if (command.op == Op::free) {
    engine_.try_free(call, buffer(command.target, call), command.stream);
  } else if (command.op == Op::launch_graph) {
    engine_.try_launch(call, command.stream, command.target);
  } else {
    const char* const name = command.name == none ? "" : texts_[command.name];
    std::optional<CollectiveCall> part;
    if (collective) part = collective_call(*collective, name, [this](recorded::Name text) { return texts_[text]; });
    if (part) engine_.begin_collective(call, command.stream, *part, true);
    engine_.try_work(call, command.stream, command.op, name, uses);
    if (part) engine_.try_collective(call, command.stream, *part);
  }
}

void LiveEngine::part_gone(const recorded::Command& free, std::uint64_t begin, std::uint64_t end) {
  const Call call = call_of(free, 0);
  const std::uint32_t which = buffer(free.target, call);
  const std::uint64_t address = objects_->memory().ranges()[free.target & ~range_bit].begin;
  engine_.part_gone(call, which, address + begin, address + end);
}
void LiveEngine::try_part_gone(const recorded::Command& free, std::uint64_t begin, std::uint64_t end) {
  const Call call = call_of(free, 0);
  const std::uint32_t which = buffer(free.target, call);
  const std::uint64_t address = objects_->memory().ranges()[free.target & ~range_bit].begin;
  engine_.try_part_gone(call, which, address + begin, address + end);
}

void LiveEngine::unpinned(const recorded::MemoryMap::Part& part) {
  const std::uint32_t range = part.range & ~range_bit;
  if (range >= ranges_.size() || ranges_[range] == none) return;
  const std::uint64_t address = objects_->memory().ranges()[range].begin;
  engine_.unpinned(ranges_[range], address + part.begin, address + part.end);
}

void LiveEngine::capture_began(std::uint64_t capture, std::uint32_t stream, SourceLocation where) {
  if (stream != none) captures_[capture] = {stream, texts_[intern(where.file_name())], where.line()};
}
void LiveEngine::finish() {
  for (const auto& [capture, open] : captures_) engine_.leaves_capturing({0, 0, open.file, open.line}, open.stream);
  engine_.finish();
}

void LiveEngine::name(std::uint32_t place, std::string_view name) {
  if (place < buffers_.size() && buffers_[place].engine != none)
    engine_.buffer_fact(buffers_[place].engine).name = name;
}

void LiveEngine::exchanged(std::uint32_t place, bool imported, SourceLocation where) {
  if (place == none) return;
  const char* const file = where.file_name();
  const std::uint32_t which = buffer(place, {0, 0, file, where.line()});
  engine_.share_buffer(which, std::string(imported ? "it came by DLPack at " : "it was exported by DLPack at ") + file +
                                  ":" + std::to_string(where.line()));
}

void LiveEngine::shared(std::uint32_t stream, SourceLocation where) {
  engine_.stream_fact(stream).unseen =
      "its native handle was taken at " + std::string(where.file_name()) + ":" + std::to_string(where.line());
}

}  // namespace weir::check
