// The commands of the program: which members each op has, and what must have been done before it.
#include <algorithm>
#include <charconv>

#include "scenario/decoder.hpp"

namespace weir::scenario {

namespace {

constexpr std::size_t node_ops_begin = static_cast<std::size_t>(Op::graph);

std::optional<Op> op_named(const std::string& text) {
  for (std::size_t i = 0; i < node_ops_begin; ++i) {
    if (to_text(static_cast<Op>(i)) == text) return static_cast<Op>(i);
  }
  return std::nullopt;
}

/// The number in "#17"; nothing for other ids.
std::optional<std::size_t> place_in(std::string_view id) {
  std::size_t place = 0;
  if (id.size() < 2 || id[0] != '#' || (id[1] == '0' && id.size() > 2)) return std::nullopt;
  const auto [end, error] = std::from_chars(id.data() + 1, id.data() + id.size(), place);
  return error == std::errc() && end == id.data() + id.size() ? std::optional(place) : std::nullopt;
}

/// Exactly one of the members, by its place in the list.
std::size_t one_member(const At& at, std::initializer_list<std::string_view> members) {
  std::size_t found = members.size();
  std::string all;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::string_view member = members.begin()[i];
    all += (all.empty() ? "" : ", ") + std::string(member);
    if (!at.has(member)) continue;
    if (found != members.size()) at.fault_at(member, "only one of these may be there");
    found = i;
  }
  if (found == members.size()) at.fault("one of these must be there: " + all);
  return found;
}

}  // namespace

void Decoder::command(const At& at) {
  if (at.value().kind != Value::Kind::object) at.only({});
  Draft draft;
  const At op = at.member("op");
  const auto known = op_named(op.string());
  if (!known) op.fault("no command is called " + shown(op.string()));
  draft.command.op = *known;
  if (at.has("id")) {
    draft.command.id = name(at.member("id"));
    check_id(at, draft.command.id);
  } else if (const auto same = recording_.find("#" + std::to_string(recording_.size()));
             same && places_[program].find(*same) != none) {
    at.fault("the command " + std::string(recording_.text(*same)) + " has the id that this one has by its place");
  }
  if (at.has("thread")) draft.command.thread = place(at.member("thread"), threads, "host thread");
  source_line(at, draft.command.file, draft.command.line);
  read_op(at, draft);
  commit(draft);
}

void Decoder::check_id(const At& at, Name id) const {
  if (places_[program].find(id) != none) at.fault_at("id", "another command has it");
  const auto place = place_in(recording_.text(id));
  if (place && *place < recording_.size() && recording_.command(*place).id == none) {
    at.fault_at("id", "it is the place of a command that has no id");
  }
}

void Decoder::read_op(const At& at, Draft& draft) {
  switch (draft.command.op) {
    case Op::launch:
    case Op::external:
    case Op::host_function: return run_on_stream(at, draft);
    case Op::copy:
    case Op::fill: return copy(at, draft);
    case Op::alloc:
    case Op::free: return memory(at, draft);
    case Op::record:
    case Op::wait: return record_or_wait(at, draft);
    case Op::synchronize: return synchronize(at, draft);
    case Op::query: return query(at, draft);
    case Op::host_read:
    case Op::host_write:
    case Op::host_open:
    case Op::host_close: return host_access(at, draft);
    case Op::give:
    case Op::take: return hand_off(at, draft);
    case Op::make:
    case Op::drop: return make_or_drop(at, draft);
    case Op::begin_capture:
    case Op::end_capture:
    case Op::launch_graph: return capture_or_launch(at, draft);
    case Op::build_graph: return build_graph(at, draft);
    case Op::update_node: return update_node(at, draft);
    case Op::enable_node: return enable_node(at, draft);
    case Op::work:
      at.only({"id", "op", "thread", "file", "line", "ns"});
      draft.cost = Cost{};
      draft.cost->ns = at.member("ns").duration();
      return;
    default: return;
  }
}

void Decoder::run_on_stream(const At& at, Draft& draft) {
  at.only({"id", "op", "thread", "file", "line", "stream", "name", "uses", "cost", "gives"});
  draft.command.stream = stream_named(at.member("stream"));
  if (at.has("name")) draft.command.name = text(at.member("name"));
  if (at.has("uses")) draft.uses = operands(at.member("uses"), draft);
  if (at.has("cost")) draft.cost = cost(at.member("cost"));
  if (!at.has("gives")) return;
  const At gives = at.member("gives");
  gives.is_array();
  if (draft.command.op != Op::host_function && gives.size() > 0) gives.fault("only host functions give");
  for (std::size_t i = 0; i < gives.size(); ++i) draft.gives.push_back(name(gives.item(i)));
}

void Decoder::copy(const At& at, Draft& draft) {
  draft.command.stream = stream_named(at.member("stream"));
  if (draft.command.op == Op::copy) {
    at.only({"id", "op", "thread", "file", "line", "stream", "to", "from", "cost"});
    sides(at, draft.uses, draft);
  } else {
    at.only({"id", "op", "thread", "file", "line", "stream", "to", "cost"});
    draft.uses = {operand(at.member("to"), draft)};
    draft.uses[0].access = Access::out;
  }
  if (at.has("cost")) draft.cost = cost(at.member("cost"));
}

void Decoder::memory(const At& at, Draft& draft) {
  at.only({"id", "op", "thread", "file", "line", "buffer", "stream"});
  Command& command = draft.command;
  const At named = at.member("buffer");
  command.target_kind = Target::buffer;
  command.target = command.op == Op::alloc ? allocated_buffer(named, draft) : live_buffer(named, draft);
  const Buffer& buffer = recording_.buffers()[command.target];
  if (at.has("stream")) command.stream = stream_named(at.member("stream"));
  const bool needs = command.op == Op::alloc ? buffer.kind == MemoryKind::device : buffer.owner == Owner::pool;
  if (needs && command.stream == none) {
    at.fault_at("stream", command.op == Op::alloc ? "device memory is allocated on a stream"
                                                  : "memory of pools is freed on a stream");
  }
}

void Decoder::record_or_wait(const At& at, Draft& draft) {
  Command& command = draft.command;
  command.stream = stream_named(at.member("stream"));
  if (command.op == Op::wait && one_member(at, {"event", "for"}) == 1) {
    at.only({"id", "op", "thread", "file", "line", "stream", "for"});
    command.target_kind = Target::stream;
    command.target = stream_named(at.member("for"));
    return;
  }
  at.only({"id", "op", "thread", "file", "line", "stream", "event", "external"});
  command.target_kind = Target::event;
  command.target = event_named(at.member("event"));
  command.flag = at.has("external") && at.member("external").boolean();
}

void Decoder::synchronize(const At& at, Draft& draft) {
  Command& command = draft.command;
  at.only({"id", "op", "thread", "file", "line", "stream", "event", "device", "all"});
  switch (one_member(at, {"stream", "event", "device", "all"})) {
    case 0: command.stream = stream_named(at.member("stream")); return;
    case 1:
      command.target_kind = Target::event;
      command.target = event_named(at.member("event"));
      return;
    case 2:
      command.target_kind = Target::device;
      command.target = place(at.member("device"), devices, "device");
      return;
    default:
      command.target_kind = Target::all;
      command.target = 0;
      if (!at.member("all").boolean()) at.fault_at("all", "it can only be true");
  }
}

void Decoder::query(const At& at, Draft& draft) {
  at.only({"id", "op", "thread", "file", "line", "stream", "event", "answer"});
  if (one_member(at, {"stream", "event"}) == 0) {
    draft.command.stream = stream_named(at.member("stream"));
  } else {
    draft.command.target_kind = Target::event;
    draft.command.target = event_named(at.member("event"));
  }
  draft.command.flag = at.member("answer").boolean();
}

void Decoder::host_access(const At& at, Draft& draft) {
  Command& command = draft.command;
  if (command.op == Op::host_read || command.op == Op::host_write) {
    at.only({"id", "op", "thread", "file", "line", "uses", "cost"});
    draft.uses = operands(at.member("uses"), draft);
    if (at.has("cost")) draft.cost = cost(at.member("cost"));
    return;
  }
  const bool opens = command.op == Op::host_open;
  if (opens) {
    at.only({"id", "op", "thread", "file", "line", "scope", "use"});
    draft.uses = {operand(at.member("use"), draft)};
  } else {
    at.only({"id", "op", "thread", "file", "line", "scope"});
  }
  command.target_kind = Target::scope;
  command.target = name(at.member("scope"));
  const bool open = scopes_.find(command.target) != none;
  if (open == opens) at.fault_at("scope", opens ? "it is open already" : "it is not open");
}

void Decoder::hand_off(const At& at, Draft& draft) {
  at.only({"id", "op", "thread", "file", "line", "name"});
  draft.command.target_kind = Target::hand_off;
  draft.command.target = name(at.member("name"));
}

void Decoder::make_or_drop(const At& at, Draft& draft) {
  Command& command = draft.command;
  at.only({"id", "op", "thread", "file", "line", "stream", "event", "graph"});
  const bool makes = command.op == Op::make;
  switch (makes ? one_member(at, {"stream", "event"}) : one_member(at, {"stream", "event", "graph"})) {
    case 0: {
      const At named = at.member("stream");
      command.stream = makes ? place(named, streams, "stream") : stream_named(named);
      const Stream& stream = recording_.streams()[command.stream];
      if (makes && !stream.later) named.fault("it is there from the start: it needs \"later\": true");
      if (makes && stream_made_[command.stream]) named.fault("it is made twice");
      if (stream.kind == StreamKind::legacy || stream.kind == StreamKind::per_thread) {
        named.fault("a default stream is there always");
      }
      break;
    }
    case 1: {
      const At named = at.member("event");
      command.target_kind = Target::event;
      command.target = makes ? place(named, events, "event") : event_named(named);
      if (makes && !recording_.events()[command.target].later) {
        named.fault("it is there from the start: it needs \"later\": true");
      }
      if (makes && event_made_[command.target]) named.fault("it is made twice");
      break;
    }
    default: command.target_kind = Target::graph; command.target = graph_named(at.member("graph"));
  }
  if (makes && at.has("graph")) at.fault_at("graph", "there is no member of this name here");
}

void Decoder::capture_or_launch(const At& at, Draft& draft) {
  Command& command = draft.command;
  command.stream = stream_named(at.member("stream"));
  if (command.op == Op::begin_capture) return at.only({"id", "op", "thread", "file", "line", "stream"});
  at.only({"id", "op", "thread", "file", "line", "stream", "graph"});
  command.target_kind = Target::graph;
  command.target = command.op == Op::end_capture ? name(at.member("graph")) : graph_named(at.member("graph"));
}

void Decoder::build_graph(const At& at, Draft& draft) {
  Command& command = draft.command;
  at.only({"id", "op", "thread", "file", "line", "graph", "device", "nodes"});
  command.target_kind = Target::graph;
  command.target = name(at.member("graph"));
  if (at.has("device")) {
    // The first one is what is meant where none is named.
    command.stream = place(at.member("device"), devices, "device");
    if (command.stream == 0) command.stream = none;
  }
  draft.nodes = nodes(at.member("nodes"), draft);
}

void Decoder::commit(const Draft& draft) {
  const Command& command = draft.command;
  const auto place = static_cast<std::uint32_t>(
      recording_.add(command, {.uses = draft.uses, .cost = draft.cost, .gives = draft.gives, .nodes = draft.nodes}));
  if (command.id != none) places_[program].set(command.id, place);
  for (const std::uint32_t buffer : draft.allocated) buffer_made_[buffer] = true;
  if (command.op == Op::make && command.stream != none) stream_made_[command.stream] = true;
  if (command.op == Op::make && command.target != none) event_made_[command.target] = true;
  if (command.op == Op::host_open) scopes_.set(command.target, place);
  if (command.op == Op::host_close) scopes_.set(command.target, none);
  if (command.op == Op::end_capture || command.op == Op::build_graph) {
    graph_made_again_ = graph_made_again_ || graphs_.find(command.target) != none;
    graphs_.set(command.target, place);
  }
}

}  // namespace weir::scenario
