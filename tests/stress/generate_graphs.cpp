// The generator's graphs: bodies made by a generator of their own, captured, replayed, dropped.
#include <algorithm>

#include "bodies.hpp"
#include "captured.hpp"
#include "generator.hpp"

namespace weir::stress {

Generator::Generator(Generator& outer, int thread, const std::vector<int>& streams)
    : Builder(outer.theme_, outer.random_.next(), outer.program_),
      turn_(thread),
      shapes_(outer.shapes_),
      home_(outer.home_) {
  theme_.defaults = false;
  streams_ = streams;
  for (const int a : outer.arrays_) {
    const ArrayDecl& decl = array(a);
    const bool near =
        std::any_of(streams.begin(), streams.end(), [&](int s) { return stream(s).device == decl.device; });
    if (decl.memory == Memory::pinned || (decl.memory == Memory::device && near)) arrays_.push_back(a);
  }
  for (const int g : outer.graphs_) {
    // Memory inside child graphs: drivers have their own limits there.
    if (!Captured(program_.graphs[static_cast<std::size_t>(g)]).has_memory) graphs_.push_back(g);
  }
}

void Generator::next_of_graphs() {
  switch (random_.weighted({4, 22, theme_.updates ? 8u : 0u, 1})) {
    case 0: return make_graph();
    case 1: return replay_graph();
    case 2: return update_graph();
    default: return drop_graph();
  }
}

void Generator::make_graph() {
  Command c = command(Kind::make_graph);
  std::vector<int> from = streams_, streams;
  for (int d = 0; d < theme_.devices; ++d) {
    from.push_back(order_.current(c.thread, d));
    if (theme_.defaults) from.push_back(per_thread(c.thread, d));
  }
  for (std::size_t i = random_.between(1, 4); i > 0; --i) {
    const int s = random_.pick(from);
    const bool capturable = stream(s).kind != StreamKind::legacy;
    if (capturable && std::count(streams.begin(), streams.end(), s) == 0) streams.push_back(s);
  }
  if (streams.empty()) return;
  Generator inner(*this, c.thread, streams);
  if (inner.arrays_.empty()) return;
  const GraphDecl decl = inner.body(streams.front());
  program_.events = inner.program_.events;
  program_.arrays = inner.program_.arrays;
  home_ = inner.home_;
  home_.resize(program_.arrays.size(), -1);
  c.stream = decl.origin;
  c.graph = add_graph(decl);
  put(c);
  Command first = command(Kind::replay);  // so that what the graph leaves has values
  first.graph = c.graph;
  choose_stream(first, stream(decl.origin).device, false);
  put(first);
  for (const int a : Captured(decl).left) arrays_.push_back(a);
}

GraphDecl Generator::body(int origin) {
  joined_ = {origin};
  const std::size_t count = random_.between(1, 14);
  for (std::size_t i = 0; i < count; ++i) next_in_body();
  const bool late = random_.percent(20);
  if (!late) end_scratch(true);
  join_back(origin);
  if (late) end_scratch(false);
  GraphDecl decl;
  decl.origin = origin;
  decl.body = std::move(program_.commands);
  for (std::size_t i = 0; i < decl.body.size(); ++i) {
    if (can_update(decl.body[i].kind)) decl.body[i].number = static_cast<int>(i);
  }
  return decl;
}

void Generator::next_in_body() {
  switch (random_.weighted({34, 6, 5, 7, 14, 7, 8, 4, 4, graphs_.empty() ? 0u : 5u, 6})) {
    case 0: return kernel();
    case 1: return algorithm();
    case 2: return blocks();
    case 3: return fill();
    case 4: return copy();
    case 5: return host_function();
    case 6: {
      const auto& [rank, shape] = random_.pick(shapes_);
      return make_array(Memory::device, shape, rank);
    }
    case 7: return clone_array();
    case 8: return end_scratch(true);
    case 9: return child();
    default: break;
  }
  Command c = command(Kind::wait_event);
  choose_stream(c, device(), false);
  if (events_.empty() || random_.percent(40)) {
    record(turn_, c.stream);
  } else {
    c.event = random_.pick(events_);
    put(c);
  }
}

/// A stream joins at its first command: it waits for one that takes part already.
void Generator::join_capture(int stream) {
  if (std::count(joined_.begin(), joined_.end(), stream) > 0) return;
  Command c = command(Kind::wait_stream);
  c.stream = stream;
  c.other = random_.pick(joined_);
  if (random_.percent(50)) {
    c.kind = Kind::wait_event;
    c.event = record(turn_, c.other);
    c.other = -1;
  }
  put(c);
  joined_.push_back(stream);
}

void Generator::control(Command& c) {
  if (!theme_.conditionals || joined_.empty() || !random_.percent(15)) return;
  static const std::vector<Control> kinds = {Control::if_, Control::if_else, Control::switch_, Control::while_};
  c.control = random_.pick(kinds);
  c.turns = static_cast<std::uint32_t>(random_.below(c.control == Control::while_ ? 4 : 2));
}

void Generator::join_back(int origin) {
  std::erase(joined_, origin);
  while (!joined_.empty()) {
    const int s = random_.pick(joined_);
    std::erase(joined_, s);
    Command c = command(Kind::wait_stream);
    c.stream = joined_.empty() || random_.percent(50) ? origin : random_.pick(joined_);
    c.other = s;
    if (random_.percent(50)) {
      c.kind = Kind::wait_event;
      c.event = record(turn_, s);
      c.other = -1;
    }
    put(c);
  }
}

void Generator::end_scratch(bool in_streams) {
  std::vector<int> made;
  for (const Command& c : program_.commands) {
    const bool makes = c.kind == Kind::make_array || c.kind == Kind::clone_array;
    if (makes && std::count(arrays_.begin(), arrays_.end(), c.out.array) > 0) made.push_back(c.out.array);
  }
  for (const int a : made) {
    if (random_.percent(10)) continue;
    Command c = command(in_streams && random_.percent(35) ? Kind::free_array : Kind::drop_array);
    c.out = whole(program_, a);
    if (c.kind == Kind::free_array) {
      c.fresh = random_.percent(40);
      c.stream = home_[static_cast<std::size_t>(a)];
      if (!c.fresh) choose_stream(c, array(a).device, false);
    }
    put(c);
  }
}

void Generator::child() {
  Command c = command(Kind::replay);
  c.graph = random_.pick(graphs_);
  choose_stream(c, device(), false);
  put(c);
}

void Generator::replay_graph() {
  if (graphs_.empty()) return;
  Command c = command(Kind::replay);
  c.graph = random_.pick(graphs_);
  choose_stream(
      c, random_.percent(80) ? stream(program_.graphs[static_cast<std::size_t>(c.graph)].origin).device : device(),
      false);
  put(c);
  if (random_.percent(30)) put(c);
}

/// Of a kernel whose arrays are still there, and mostly followed by a replay.
void Generator::update_graph() {
  if (graphs_.empty()) return;
  Command c = command(Kind::update_graph);
  c.graph = random_.pick(graphs_);
  const auto alive = [&](const Operand& operand) {
    return std::count(arrays_.begin(), arrays_.end(), operand.array) > 0;
  };
  std::vector<int> nodes;
  for (const Command& inner : graph_of(program_, c).body) {
    if (can_update(inner.kind) && alive(inner.out) && std::all_of(inner.in.begin(), inner.in.end(), alive)) {
      nodes.push_back(inner.number);
    }
  }
  if (nodes.empty()) return;
  c.number = random_.pick(nodes);
  static const std::vector<Change> changes = {Change::kernel, Change::kernel, Change::kernel, Change::disable,
                                              Change::enable};
  c.change = random_.pick(changes);
  if (c.change == Change::kernel) c.delay = delay();
  put(c);
  if (!random_.percent(70)) return;
  Command replay = command(Kind::replay);
  replay.graph = c.graph;
  choose_stream(replay, stream(graph_of(program_, c).origin).device, false);
  put(replay);
}

void Generator::drop_graph() {
  if (graphs_.empty()) return;
  Command c = command(Kind::drop_graph);
  c.graph = random_.pick(graphs_);
  put(c);
}

/// Arrays that a graph will read or write must not be freed: the graph keeps the memory, and not its contents.
bool Generator::used_by_graphs(int array) const {
  return std::any_of(program_.graphs.begin(), program_.graphs.end(), [&](const GraphDecl& graph) {
    return std::any_of(graph.body.begin(), graph.body.end(), [&](const Command& c) {
      return c.out.array == array ||
             std::any_of(c.in.begin(), c.in.end(), [&](const Operand& in) { return in.array == array; });
    });
  });
}

}  // namespace weir::stress
