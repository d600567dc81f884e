// What the commands of a random program touch, and how they wait.
#include "program.hpp"

#include <algorithm>

#include "bodies.hpp"
#include "captured.hpp"

namespace weir::stress {

namespace {

/// Pageable memory of more bytes is not taken before the call returns: the call waits.
constexpr std::size_t staged_bytes = std::size_t{1} << 20;

bool disjoint(const Steps& a, const Steps& b) {
  if (a.hi <= b.lo || b.hi <= a.lo) return true;
  return a.step == b.step && a.lo % a.step != b.lo % b.step;
}

Memory memory_of(const Program& program, const Operand& operand) {
  return program.arrays[static_cast<std::size_t>(operand.array)].memory;
}

bool from_pageable(const Program& program, const Command& c) {
  return c.kind == Kind::copy || c.kind == Kind::clone_array || c.kind == Kind::download
             ? memory_of(program, c.in[0]) == Memory::pageable
             : c.kind == Kind::upload || (c.kind == Kind::make_array && c.how == How::from);
}

}  // namespace

Operand whole(const Program& program, int array) {
  Operand operand;
  operand.array = array;
  const ArrayDecl& decl = program.arrays[static_cast<std::size_t>(array)];
  for (std::size_t d = 0; d < 4; ++d) operand.dims[d] = {0, decl.size[d], 1};
  return operand;
}

bool is_whole(const Program& program, const Operand& operand) {
  return count_of(operand) == program.arrays[static_cast<std::size_t>(operand.array)].count();
}

bool overlap(const Operand& a, const Operand& b) {
  if (a.array != b.array || a.array < 0) return false;
  for (std::size_t d = 0; d < 4; ++d) {
    if (disjoint(a.dims[d], b.dims[d])) return false;
  }
  return true;
}

std::array<std::size_t, 4> shape_of(const Program& program, const Operand& operand) {
  const int rank = program.arrays[static_cast<std::size_t>(operand.array)].rank;
  std::array<std::size_t, 4> shape = {1, 1, 1, 1};
  for (int d = 0; d < rank; ++d) {
    shape[static_cast<std::size_t>(d)] =
        operand.dims[static_cast<std::size_t>(operand.transposed ? rank - 1 - d : d)].count();
  }
  return shape;
}

std::size_t count_of(const Operand& operand) {
  std::size_t count = 1;
  for (const Steps& steps : operand.dims) count *= steps.count();
  return count;
}

bool runs_in_stream(Kind kind) {
  switch (kind) {
    case Kind::make_array:
    case Kind::clone_array:
    case Kind::free_array:
    case Kind::record:
    case Kind::wait_event:
    case Kind::wait_stream:
    case Kind::enter: return true;
    default: return kind >= Kind::set && kind <= Kind::fail_host;
  }
}

bool is_barrier(const Command& c) {
  switch (c.kind) {
    case Kind::make_array: return c.how != How::empty;
    case Kind::free_array:
    case Kind::wait_event:
    case Kind::wait_stream:
    case Kind::enter: return false;
    default: return runs_in_stream(c.kind);
  }
}

bool reads_out(Kind kind) {
  switch (kind) {
    case Kind::bump:
    case Kind::mix:
    case Kind::gather:
    case Kind::blocks:
    case Kind::host_call:
    case Kind::external:
    case Kind::host_work: return true;
    default: return false;
  }
}

bool writes_all(const Program& program, const Command& c) {
  return is_whole(program, c.out) && !reads_out(c.kind) && c.control == Control::none;
}

bool is_wait(Kind kind) {
  switch (kind) {
    case Kind::wait_event:
    case Kind::wait_stream:
    case Kind::sync_stream:
    case Kind::sync_event:
    case Kind::sync_device:
    case Kind::sync_all: return true;
    default: return false;
  }
}

bool blocks_host(const Program& program, const Command& c) {
  if (c.kind == Kind::download || c.kind == Kind::to_host) return true;
  if (c.kind == Kind::fill) return memory_of(program, c.out) == Memory::pageable;
  if (c.out.array < 0 || (c.kind != Kind::copy && c.kind != Kind::upload && c.kind != Kind::clone_array &&
                          !(c.kind == Kind::make_array && c.how == How::from))) {
    return false;
  }
  if (memory_of(program, c.out) == Memory::pageable) return true;
  return from_pageable(program, c) && count_of(c.out) * sizeof(Element) > staged_bytes;
}

const GraphDecl& graph_of(const Program& program, const Command& c) {
  return program.graphs[static_cast<std::size_t>(c.graph)];
}

std::vector<Access> accesses(const Program& program, const Command& c) {
  std::vector<Access> all;
  if (c.kind == Kind::replay) {
    for (const Command& inner : graph_of(program, c).body) {
      for (const Access& access : accesses(program, inner)) all.push_back(access);
    }
    return all;
  }
  const bool at_call_only = c.kind == Kind::host_work || c.kind == Kind::make_host;
  const bool source_taken = from_pageable(program, c);
  for (const Operand& operand : c.in) {
    if (at_call_only || source_taken) all.push_back({operand, false, true});
    if (!at_call_only && (!source_taken || blocks_host(program, c))) all.push_back({operand, false, false});
  }
  if (c.out.array >= 0 && c.kind != Kind::drop_array) {
    all.push_back({c.out, true, at_call_only});
  }
  return all;
}

std::vector<Use> uses_of_stream(const Program& program, int stream, bool exclusive) {
  std::vector<Use> all = {{Object::stream, stream, exclusive || program.streams_in_turn}};
  const StreamDecl& decl = program.streams[static_cast<std::size_t>(stream)];
  if (!program.defaults_in_turn || decl.kind == StreamKind::non_blocking) return all;
  const auto legacy = std::find_if(program.streams.begin(), program.streams.end(), [&](const StreamDecl& s) {
    return s.kind == StreamKind::legacy && s.device == decl.device;
  });
  all.push_back({Object::stream, static_cast<int>(legacy - program.streams.begin()), true});
  return all;
}

std::vector<Use> uses(const Program& program, const Command& c) {
  std::vector<Use> all;
  const auto add = [&](Object object, int id, bool exclusive) {
    if (id >= 0) all.push_back({object, id, exclusive});
  };
  for (const int stream : {c.stream, c.other}) {
    if (stream < 0) continue;
    const std::vector<Use> of_stream =
        uses_of_stream(program, stream, c.kind == Kind::make_stream || c.kind == Kind::drop_stream);
    all.insert(all.end(), of_stream.begin(), of_stream.end());
  }
  add(Object::event, c.event, c.kind == Kind::make_event || c.kind == Kind::drop_event || c.kind == Kind::record);
  add(Object::event, c.event2, false);
  add(Object::pool, c.pool, c.kind == Kind::make_pool || c.kind == Kind::drop_pool);
  const bool array_exclusive = c.kind == Kind::make_host || c.kind == Kind::make_array || c.kind == Kind::clone_array ||
                               c.kind == Kind::drop_array || c.kind == Kind::free_array;
  add(Object::array, c.out.array, array_exclusive);
  add(Object::graph, c.graph, c.kind == Kind::make_graph || c.kind == Kind::update_graph || c.kind == Kind::drop_graph);
  if (const Command* node = c.kind == Kind::update_graph ? updated(program, c) : nullptr) {
    add(Object::array, node->out.array, false);
    for (const Operand& operand : node->in) add(Object::array, operand.array, false);
  }
  if (c.kind == Kind::make_graph) {  // what others do to its streams meanwhile would be captured, too
    const Captured captured(graph_of(program, c));
    for (const int stream : captured.streams) add(Object::stream, stream, true);
    for (const int array : captured.used) add(Object::array, array, false);
    for (const int array : captured.left) add(Object::array, array, true);
    for (const int child : captured.children) add(Object::graph, child, false);
  }
  for (const Operand& operand : c.in) add(Object::array, operand.array, false);
  return all;
}

}  // namespace weir::stress
