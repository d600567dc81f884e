// The inside of captured graphs, as programs of their own.
#include "captured.hpp"

#include <algorithm>

#include "order.hpp"
#include "valid.hpp"

namespace weir::stress {

namespace {

bool makes_array(const Command& c) { return c.kind == Kind::make_array || c.kind == Kind::clone_array; }
bool ends_array(const Command& c) { return c.kind == Kind::drop_array || c.kind == Kind::free_array; }

Command make(Kind kind, int stream, int thread) {
  Command c;
  c.kind = kind;
  c.stream = stream;
  c.thread = thread;
  return c;
}

/// Arrays that replays of the graph read or write, and did not make.
void note_arrays(const Program& program, const GraphDecl& graph, std::set<int>& arrays) {
  const Captured captured(graph);
  arrays.insert(captured.used.begin(), captured.used.end());
  for (const int child : captured.children)
    note_arrays(program, program.graphs[static_cast<std::size_t>(child)], arrays);
}

/// The work of a replay in its stream: what a child graph does, seen from outside.
void append_work(const Program& program, const Command& replay, std::vector<Command>& to) {
  for (Command c : graph_of(program, replay).body) {
    c.stream = replay.stream;
    c.thread = replay.thread;
    if (c.kind == Kind::replay) {
      append_work(program, c, to);
    } else if (c.out.array >= 0) {
      to.push_back(std::move(c));
    }
  }
}

/// Streams take part from the moment that they wait for something in the capture.
std::string never_joined(const Program& program, const GraphDecl& graph) {
  std::set<int> joined = {graph.origin}, events;
  for (const Command& c : graph.body) {
    const bool joins = (c.kind == Kind::wait_stream && joined.contains(c.other)) ||
                       (c.kind == Kind::wait_event && events.contains(c.event));
    if (joins) joined.insert(c.stream);
    if (c.stream >= 0 && !joined.contains(c.stream)) return to_text(program, c) + ": its stream has not joined";
    if (c.kind == Kind::wait_stream && !joined.contains(c.other)) return to_text(program, c) + ": from outside";
    if (c.kind == Kind::wait_event && !events.contains(c.event)) return to_text(program, c) + ": from outside";
    if (c.kind == Kind::record) events.insert(c.event);
  }
  return {};
}

std::string not_joined_back(Program body, int origin) {
  const std::size_t begin = body_begin(body), end = body.commands.size();
  body.commands.push_back(make(Kind::record, origin, body.commands.back().thread));
  const std::vector<Command> all = std::move(body.commands);
  body.commands.clear();
  Order order(body);
  for (const Command& c : all) {
    body.commands.push_back(c);
    order.append();
  }
  for (std::size_t i = begin; i < end; ++i) {
    const Command& c = all[i];
    const bool timed = c.kind == Kind::record && body.events[static_cast<std::size_t>(c.event)].timed;
    const bool node = timed || (runs_in_stream(c.kind) && c.kind != Kind::record && !is_wait(c.kind));
    if (node && !order.ordered(i, end)) return to_text(body, c) + ": not joined back";
  }
  return {};
}

}  // namespace

Captured::Captured(const GraphDecl& graph) : streams{graph.origin} {
  std::set<int> made;
  for (const Command& c : graph.body) {
    if (c.stream >= 0) streams.insert(c.stream);
    if (c.kind == Kind::replay) children.insert(c.graph);
    for (const Operand& operand : c.in) {
      if (!made.contains(operand.array)) used.insert(operand.array);
    }
    if (makes_array(c)) {
      has_memory = true;
      made.insert(c.out.array);
      left.insert(c.out.array);
    } else if (ends_array(c)) {
      left.erase(c.out.array);
    } else if (c.out.array >= 0 && !made.contains(c.out.array)) {
      used.insert(c.out.array);
    }
    has_memory = has_memory || c.kind == Kind::reduce || c.kind == Kind::scan;
  }
}

Program body_program(const Program& program, const GraphDecl& graph) {
  Program body = program;
  body.graphs.clear();
  body.commands.clear();
  const int thread = graph.body.empty() ? 0 : graph.body.front().thread;
  for (const int s : Captured(graph).streams) {
    const bool made = program.streams[static_cast<std::size_t>(s)].kind < StreamKind::legacy;
    if (made) body.commands.push_back(make(Kind::make_stream, s, thread));
  }
  std::set<int> arrays;
  note_arrays(program, graph, arrays);
  for (const int a : arrays) {
    const bool device = program.arrays[static_cast<std::size_t>(a)].memory == Memory::device;
    Command c = make(device ? Kind::make_array : Kind::make_host, device ? graph.origin : -1, thread);
    c.how = How::full;
    c.salt = static_cast<Element>(a);
    c.out = whole(program, a);
    body.commands.push_back(std::move(c));
  }
  Command begin = make(Kind::record, graph.origin, thread);
  begin.event = static_cast<int>(body.events.size());
  begin.fresh = true;
  body.events.push_back({program.streams[static_cast<std::size_t>(graph.origin)].device, false, thread});
  body.commands.push_back(begin);
  for (const Command& c : graph.body) {
    if (c.kind == Kind::replay) {
      append_work(program, c, body.commands);
    } else {
      body.commands.push_back(c);
    }
  }
  return body;
}

std::size_t body_begin(const Program& body) {
  const int first = static_cast<int>(body.events.size()) - 1;
  const auto begin = std::find_if(body.commands.begin(), body.commands.end(),
                                  [&](const Command& c) { return c.kind == Kind::record && c.event == first; });
  return static_cast<std::size_t>(begin - body.commands.begin()) + 1;
}

std::optional<std::string> capture_problem(const Program& program, const GraphDecl& graph) {
  for (const int s : Captured(graph).streams) {
    if (program.streams[static_cast<std::size_t>(s)].kind == StreamKind::legacy) return "captures the legacy stream";
  }
  if (std::string text = never_joined(program, graph); !text.empty()) return text;
  const Program body = body_program(program, graph);
  if (auto text = problem(body)) return text;
  if (std::string text = not_joined_back(body, graph.origin); !text.empty()) return text;
  return std::nullopt;
}

}  // namespace weir::stress
