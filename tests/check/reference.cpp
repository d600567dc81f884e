// What the checker must find, by the definition.
#include "reference.hpp"

#include <algorithm>
#include <functional>

namespace check_test {

using weir::recorded::Command;
using weir::recorded::none;
using weir::recorded::Op;
using weir::recorded::Owner;
using weir::recorded::StreamKind;
using weir::recorded::Target;
using Access = weir::recorded::Access;
using nlohmann::json;

namespace {

bool blocking(StreamKind kind) { return kind == StreamKind::blocking || kind == StreamKind::per_thread; }
bool reads(Access access) { return access != Access::out; }
bool writes(Access access) { return access != Access::in; }

/// Large buffers are used as a whole: they have one byte.
std::uint64_t unit(std::uint64_t bytes) { return bytes > 4096 ? bytes : 1; }

}  // namespace

Reference::Reference(const weir::Recording& recording, weir::HostOrder order)
    : recording_(&recording),
      order_(order),
      streams_(recording.streams().size()),
      events_(recording.events().size()),
      memory_(recording.buffers().size()) {
  for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i].home = recording.buffers()[i].home;
}

Reference::Moment Reference::moment(const Moments& after) {
  Bits all;
  for (const Moment one : after) {
    if (one == nowhere) continue;
    all.add(before_[one]);
    all.add(one);
  }
  before_.push_back(std::move(all));
  return static_cast<Moment>(before_.size() - 1);
}

Reference::Moment& Reference::host(std::uint32_t thread) {
  return hosts_.try_emplace(order_ == weir::HostOrder::observed ? 0 : thread, nowhere).first->second;
}

Bits Reference::bytes(const weir::recorded::Use& use) const {
  const std::uint64_t scale = unit(recording_->buffers()[use.buffer].bytes);
  Bits made;
  const std::function<void(std::uint64_t, std::size_t)> rows = [&](std::uint64_t at, std::size_t dimensions) {
    if (dimensions == 0) {
      for (std::uint64_t i = 0; i < use.bytes; i += scale) made.add(static_cast<std::size_t>((at + i) / scale));
      return;
    }
    const auto& repeat = use.repeat[dimensions - 1];
    for (std::uint64_t i = 0; i < repeat.count; ++i) rows(at + i * repeat.stride, dimensions - 1);
  };
  rows(use.offset, use.dimensions);
  return made;
}

/// The run of a command, behind its call.
Reference::Moment Reference::run(std::size_t, std::uint32_t place, bool own_only) {
  const auto& streams = recording_->streams();
  Moments after = {host(thread_), streams_[place].last};
  const bool legacy = streams[place].kind == StreamKind::legacy;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (streams[i].device != streams[place].device) continue;
    if (legacy && !own_only && blocking(streams[i].kind)) after.push_back(streams_[i].last);
    if (blocking(streams[place].kind) && streams[i].kind == StreamKind::legacy) after.push_back(streams_[i].last);
  }
  return streams_[place].last = moment(after);
}

void Reference::add(const Use& second, std::size_t first, const std::string& node, std::uint32_t buffer,
                    const char* kind, const Bits& bytes) {
  raced_ = true;
  auto race = std::find_if(races_.begin(), races_.end(), [&](const Race& one) {
    return one.second == second.command && one.node == second.node && one.buffer == buffer;
  });
  if (race == races_.end()) race = races_.insert(races_.end(), {second.command, second.node, buffer, {}});
  auto partner = std::find_if(race->partners.begin(), race->partners.end(),
                              [&](const Partner& one) { return one.first == first && one.node == node; });
  if (partner == race->partners.end()) partner = race->partners.insert(race->partners.end(), {first, node, {}, {}});
  partner->kinds.insert(kind);
  partner->bytes.add(bytes);
}

/// Compares with all that was used before, and keeps it.
void Reference::use(Use second) {
  if (!second.bytes.any()) return;
  const Memory& memory = memory_[second.buffer];
  if (memory.freed && !second.kept) add(second, memory.free_command, "", second.buffer, "use_after_free", second.bytes);
  for (const Moment alloc : memory.alloc) {
    if (!before(alloc, second.begin)) {
      add(second, memory.alloc_command, "", second.buffer, "use_before_alloc", second.bytes);
    }
  }
  const auto compare = [&](const Use& first) {
    if (first.buffer != second.buffer || (first.launch == second.launch && first.launch != no_number) ||
        first.command == second.command) {
      return;
    }
    if (before(first.end, second.begin)) return;
    const bool both = first.access == Access::accumulate && second.access == Access::accumulate;
    if (both || (!writes(first.access) && !writes(second.access))) return;
    const Bits common = first.bytes.with(second.bytes);
    if (!common.any()) return;
    if (writes(first.access) && reads(second.access))
      add(second, first.command, first.node, first.buffer, "read_after_write", common);
    if (writes(first.access) && writes(second.access))
      add(second, first.command, first.node, first.buffer, "write_after_write", common);
    if (reads(first.access) && writes(second.access))
      add(second, first.command, first.node, first.buffer, "write_after_read", common);
  };
  for (const Use& first : uses_) compare(first);
  for (const auto& [scope, first] : scopes_) compare(first);
}

void Reference::free(std::size_t place, std::uint32_t buffer, Moment end, const std::string& node) {
  Memory& memory = memory_[buffer];
  Use whole{place, node, buffer, Access::out, {}, end, end, false, {}, no_number};
  const std::uint64_t size = recording_->buffers()[buffer].bytes;
  for (std::uint64_t i = 0; i < size / unit(size); ++i) whole.bytes.add(static_cast<std::size_t>(i));
  for (const Moment alloc : memory.alloc) {
    if (!before(alloc, end)) add(whole, memory.alloc_command, "", buffer, "free_before_alloc", whole.bytes);
  }
  const auto compare = [&](const Use& first) {
    if (first.buffer == buffer && !first.kept && !before(first.end, end)) {
      add(whole, first.command, first.node, buffer, "use_after_free", first.bytes);
    }
  };
  for (const Use& first : uses_) compare(first);
  for (const auto& [scope, first] : scopes_) compare(first);
  memory.freed = true;
  memory.free_command = place;
}

/// A wait is redundant if all uses and allocations before the awaited place come before this one anyway.
void Reference::hint(std::size_t place, std::uint32_t stream, const Moments& awaited, Moment without) {
  if (recording_->streams()[stream].kind == StreamKind::legacy) return;
  for (const std::size_t used : using_moments_) {
    for (const Moment one : awaited) {
      if (before(static_cast<Moment>(used), one) && !before(static_cast<Moment>(used), without)) return;
    }
  }
  redundant_.insert(recording_->id(place));
}

void Reference::call(std::size_t place) {
  const Command& command = recording_->command(place);
  raced_ = false;
  thread_ = command.thread;
  host(thread_) = moment({host(thread_)});  // the call
  const Moment called = host(thread_);
  const auto end_call = [&](Moments more = {}) {
    more.push_back(host(thread_));
    host(thread_) = moment(more);
  };
  std::vector<weir::recorded::Use> declared;
  for (std::size_t i = 0; i < command.use_count; ++i) declared.push_back(recording_->use(command, i));
  const auto& buffers = recording_->buffers();
  const std::uint32_t s = command.stream;
  const auto make_node = [&](Op op, std::uint32_t target) {
    auto& captured = captures_[streams_[s].capture];
    captured.push_back({op, recording_->id(place), target, true, declared, streams_[s].frontier, {}, false});
    streams_[s].frontier = {static_cast<std::uint32_t>(captured.size() - 1)};
  };
  const bool captured = s != none && command.op != Op::build_graph && streams_[s].capture != 0;
  switch (command.op) {
    case Op::launch:
    case Op::external:
    case Op::host_function:
    case Op::copy:
    case Op::fill: {
      if (captured) {
        make_node(command.op, none);
        break;
      }
      const bool moves = command.op == Op::copy || command.op == Op::fill;
      if (moves && declared[0].total() == 0) break;
      const auto kind_of = [&](std::size_t side) { return buffers[declared[side].buffer].kind; };
      const bool to_host = moves && kind_of(0) == weir::MemoryKind::pageable;
      const bool from_host = command.op == Op::copy && kind_of(1) == weir::MemoryKind::pageable;
      const bool large = moves && declared[0].total() > 1 << 20;
      const bool taken = from_host && !to_host && !large;
      const Moment at = run(place, s);
      end_call(to_host || (from_host && large) ? Moments{at} : Moments{});
      std::vector<Use> made;
      for (std::size_t i = 0; i < declared.size(); ++i) {
        const bool by_host = taken && i == 1;
        made.push_back({place,
                        "",
                        declared[i].buffer,
                        declared[i].access,
                        bytes(declared[i]),
                        by_host ? called : at,
                        by_host ? host(thread_) : at,
                        false,
                        {},
                        no_number});
        if (buffers[declared[i].buffer].owner == Owner::array && !declared[i].raw)
          memory_[declared[i].buffer].given.insert(s);
      }
      for (const Use& one : made) use(one);
      for (const Use& one : made) {
        uses_.push_back(one);
        if (one.bytes.any()) using_moments_.insert(one.end);
      }
      for (const auto name : recording_->gives(command)) gives_[name].push_back(at);
      break;
    }
    case Op::alloc: {
      Memory& memory = memory_[command.target];
      memory.alloc_command = place;
      memory.home = s;
      if (s == none) {
        end_call();
        memory.alloc = {host(thread_)};
      } else {
        memory.alloc = {run(place, s, true)};
      }
      using_moments_.insert(memory.alloc[0]);
      break;
    }
    case Op::free: {
      const Memory& memory = memory_[command.target];
      Moments after = {called};
      const bool array = buffers[command.target].owner == Owner::array;
      if (array) {
        if (memory.home != none) after.push_back(streams_[memory.home].last);
        for (const std::uint32_t given : memory.given) after.push_back(streams_[given].last);
        after.insert(after.end(), memory.launches.begin(), memory.launches.end());
      }
      const std::uint32_t in = s != none ? s : array ? memory.home : none;
      if (in != none) after.push_back(run(place, in, true));
      free(place, command.target, moment(after), "");
      break;
    }
    case Op::record: {
      Event& event = events_[command.target];
      if (captured) {
        if (command.flag) {
          make_node(Op::record, command.target);
        } else {
          event.capture = streams_[s].capture;
          event.frontier = streams_[s].frontier;
        }
        break;
      }
      event.capture = 0;
      event.record = {run(place, s)};
      break;
    }
    case Op::wait: {
      Event own;
      Event* event = &own;
      if (command.target_kind == Target::stream) {
        if (streams_[command.target].capture != 0) {
          own.capture = streams_[command.target].capture;
          own.frontier = streams_[command.target].frontier;
        } else {
          own.record = {run(place, command.target)};
        }
      } else {
        event = &events_[command.target];
      }
      if (captured && command.flag) {
        make_node(Op::wait, command.target);
        break;
      }
      if (event->capture != 0 && captures_.count(event->capture) != 0) {
        if (streams_[s].capture == 0) streams_[s].frontier.clear();
        streams_[s].capture = event->capture;
        auto& frontier = streams_[s].frontier;
        for (const std::uint32_t one : event->frontier) {
          if (std::find(frontier.begin(), frontier.end(), one) == frontier.end()) frontier.push_back(one);
        }
        break;
      }
      const Moment without = run(place, s);
      if (event->record.empty()) {
        empty_.insert(recording_->id(place));
      } else {
        hint(place, s, event->record, without);
        Moments after = event->record;
        after.push_back(without);
        streams_[s].last = moment(after);
      }
      break;
    }
    case Op::query:
      if (!command.flag) break;
      [[fallthrough]];
    case Op::synchronize: {
      Moments after;
      if (command.target_kind == Target::event) {
        after = events_[command.target].record;
      } else {
        for (std::size_t i = 0; i < streams_.size(); ++i) {
          const auto& stream = recording_->streams()[i];
          const bool meant =
              command.target_kind == Target::all ? true
              : command.target_kind == Target::device
                  ? stream.device == command.target
                  : i == s || (recording_->streams()[s].kind == StreamKind::legacy &&
                               stream.device == recording_->streams()[s].device && blocking(stream.kind));
          if (meant) after.push_back(streams_[i].last);
        }
      }
      end_call(after);
      break;
    }
    case Op::host_read:
    case Op::host_write: {
      end_call();
      const Access access = command.op == Op::host_read ? Access::in : Access::out;
      std::vector<Use> accesses;
      for (const auto& one : declared) {
        accesses.push_back({place, "", one.buffer, access, bytes(one), called, host(thread_), false, {}, no_number});
      }
      for (const Use& one : accesses) use(one);
      for (const Use& one : accesses) {
        uses_.push_back(one);
        if (one.bytes.any()) using_moments_.insert(host(thread_));
      }
      break;
    }
    case Op::host_open: {
      Use opened{place, "", declared[0].buffer, declared[0].access, bytes(declared[0]), called, nowhere,
                 false, {}, no_number};
      use(opened);
      scopes_[command.target] = opened;
      break;
    }
    case Op::host_close: {
      Use closed = scopes_.at(command.target);
      scopes_.erase(command.target);
      end_call();
      closed.end = host(thread_);
      uses_.push_back(closed);
      if (closed.bytes.any()) using_moments_.insert(closed.end);
      break;
    }
    case Op::give: gives_[command.target].push_back(called); break;
    case Op::take: end_call(gives_[command.target]); break;
    case Op::begin_capture: {
      const auto id = static_cast<std::uint32_t>(place + 1);
      streams_[s].capture = id;
      streams_[s].frontier.clear();
      captures_[id] = {};
      break;
    }
    case Op::end_capture: {
      const std::uint32_t id = streams_[s].capture;
      graphs_[command.target] = {};
      graphs_[command.target].nodes = std::make_shared<std::vector<Node>>(captures_[id]);
      captures_.erase(id);
      for (Stream& stream : streams_) {
        if (stream.capture == id) stream.capture = 0;
      }
      break;
    }
    case Op::build_graph:
      graphs_[command.target] = {};
      graphs_[command.target].nodes = std::make_shared<std::vector<Node>>(nodes(recording_->nodes(command), ""));
      break;
    case Op::update_node:
    case Op::enable_node: {
      auto changed = std::make_shared<std::vector<Node>>(*graphs_.at(command.target).nodes);
      const std::function<void(std::vector<Node>&)> look = [&](std::vector<Node>& list) {
        for (Node& node : list) {
          if (node.path == recording_->text(command.name)) {
            if (command.op == Op::enable_node)
              node.enabled = command.flag;
            else
              node.uses = declared;
          }
          for (auto& body : node.bodies) look(body);
        }
      };
      look(*changed);
      graphs_.at(command.target).nodes = changed;
      break;
    }
    case Op::launch_graph: launch(place, s, command.target); break;
    case Op::drop:
      if (command.target_kind == Target::graph) graphs_.erase(command.target);
      break;
    default: break;
  }
  end_call();
}

json Reference::races() const {
  json all = json::array();
  const auto ranges = [&](const Bits& bits, std::uint32_t buffer) {
    const std::uint64_t scale = unit(recording_->buffers()[buffer].bytes);
    json list = json::array();
    for (std::size_t i = 0; i < bits.end(); ++i) {
      if (!bits.has(i) || (i > 0 && bits.has(i - 1))) continue;
      std::size_t end = i;
      while (bits.has(end)) ++end;
      list.push_back({i * scale, end * scale});
    }
    return list;
  };
  const auto node = [](const std::string& name) { return name.empty() ? json() : json(name); };
  for (const Race& race : races_) {
    Bits required;
    json partners = json::array();
    for (const Partner& one : race.partners) {
      required.add(one.bytes);
      partners.push_back({{"first", recording_->id(one.first)},
                          {"node", node(one.node)},
                          {"kinds", one.kinds},
                          {"bytes", ranges(one.bytes, race.buffer)}});
    }
    for (const Race& other : races_) {
      if (other.buffer != race.buffer || other.second >= race.second) continue;
      for (const Partner& one : other.partners) required.remove(one.bytes);
    }
    all.push_back({{"second", recording_->id(race.second)},
                   {"node", node(race.node)},
                   {"buffer", recording_->text(recording_->buffers()[race.buffer].name)},
                   {"required_bytes", ranges(required, race.buffer)},
                   {"partners", partners}});
  }
  return all;
}

}  // namespace check_test
