// Programs as text, one line a command: what a failing test prints.
#include "program.hpp"

namespace weir::stress {

namespace {

std::string number(std::size_t n) { return std::to_string(n); }

const ArrayDecl& decl_of(const Program& program, int array) { return program.arrays[static_cast<std::size_t>(array)]; }

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::make_stream: return "stream";
    case Kind::drop_stream: return "~stream";
    case Kind::make_event: return "event";
    case Kind::drop_event: return "~event";
    case Kind::make_pool: return "pool";
    case Kind::drop_pool: return "~pool";
    case Kind::trim_pool: return "trim";
    case Kind::make_graph: return "capture";
    case Kind::update_graph: return "update";
    case Kind::drop_graph: return "~graph";
    case Kind::make_host: return "array";
    case Kind::make_array: return "array";
    case Kind::clone_array: return "clone";
    case Kind::drop_array: return "~array";
    case Kind::free_array: return "free";
    case Kind::set: return "launch set";
    case Kind::bump: return "launch bump";
    case Kind::map: return "launch map";
    case Kind::mix: return "launch mix";
    case Kind::join: return "launch join";
    case Kind::gather: return "launch gather";
    case Kind::blocks: return "launch blocks";
    case Kind::reduce: return "reduce";
    case Kind::scan: return "inclusive_scan";
    case Kind::transform: return "transform";
    case Kind::copy: return "copy";
    case Kind::fill: return "fill";
    case Kind::upload: return "upload";
    case Kind::download: return "download";
    case Kind::to_host: return "to_host";
    case Kind::host_call: return "host_call";
    case Kind::external: return "external";
    case Kind::replay: return "replay";
    case Kind::fail_kernel: return "launch fail";
    case Kind::fail_host: return "host_call fail";
    case Kind::host_work: return "host work";
    case Kind::record: return "record";
    case Kind::wait_event: return "wait";
    case Kind::wait_stream: return "wait";
    case Kind::enter: return "enter";
    case Kind::leave: return "leave";
    case Kind::set_current: return "set_stream";
    case Kind::sync_stream: return "synchronize";
    case Kind::sync_event: return "synchronize";
    case Kind::sync_device: return "synchronize device";
    case Kind::sync_all: return "synchronize all";
    case Kind::query_stream: return "done?";
    case Kind::query_event: return "done?";
    case Kind::elapsed: return "elapsed";
    case Kind::signal: return "signal";
    case Kind::await: return "await";
  }
  return "?";
}

std::string stream_name(const Program& program, int stream) {
  const StreamDecl& decl = program.streams[static_cast<std::size_t>(stream)];
  const std::string device = program.devices > 1 ? number(static_cast<std::size_t>(decl.device)) : "";
  switch (decl.kind) {
    case StreamKind::legacy: return "legacy" + device;
    case StreamKind::per_thread:
      return "per_thread" + device + (program.threads > 1 ? ".t" + std::to_string(decl.thread) : "");
    case StreamKind::own: return "own" + device;
    default: return "s" + std::to_string(stream);
  }
}

std::string sizes(const std::array<std::size_t, 4>& size, int rank) {
  std::string text = "[";
  for (int d = 0; d < rank; ++d) text += (d > 0 ? " " : "") + number(size[static_cast<std::size_t>(d)]);
  return text + "]";
}

std::string operand_text(const Program& program, const Operand& operand) {
  std::string text = "a" + std::to_string(operand.array);
  if (!is_whole(program, operand)) {
    text += "[";
    for (int d = 0; d < decl_of(program, operand.array).rank; ++d) {
      const Steps& steps = operand.dims[static_cast<std::size_t>(d)];
      text += (d > 0 ? ", " : "") + number(steps.lo) + ":" + number(steps.hi);
      if (steps.step != 1) text += ":" + number(steps.step);
    }
    text += "]";
  }
  return operand.transposed ? text + ".T" : text;
}

std::string made_stream(const Program& program, const Command& c) {
  const StreamDecl& decl = program.streams[static_cast<std::size_t>(c.stream)];
  return std::string(decl.kind == StreamKind::blocking ? " blocking" : " non_blocking") + " device " +
         std::to_string(decl.device) + " priority " + std::to_string(decl.priority);
}

std::string made_array(const Program& program, const Command& c) {
  static constexpr const char* memories[] = {"device", "pinned", "pageable"};
  static constexpr const char* hows[] = {"empty", "zeros", "full", "from"};
  const ArrayDecl& decl = decl_of(program, c.out.array);
  std::string text = std::string(" ") + hows[static_cast<std::size_t>(c.how)] + " " + sizes(decl.size, decl.rank) +
                     " " + memories[static_cast<std::size_t>(decl.memory)];
  if (decl.memory == Memory::device) text += " " + std::to_string(decl.device);
  if (c.pool >= 0) text += " pool p" + std::to_string(c.pool);
  return text;
}

std::string objects(const Program& program, const Command& c) {
  std::string text;
  if (c.event >= 0) text += " e" + std::to_string(c.event);
  if (c.event2 >= 0) text += " e" + std::to_string(c.event2);
  if (c.event >= 0 && (c.kind == Kind::make_event || c.fresh)) {
    text += program.events[static_cast<std::size_t>(c.event)].timed ? " new timed" : " new";
  }
  if (c.other >= 0) text += (c.kind == Kind::enter ? " from " : " ") + stream_name(program, c.other);
  if (c.pool >= 0 && c.kind != Kind::make_array) text += " p" + std::to_string(c.pool);
  if (c.graph >= 0) text += " g" + std::to_string(c.graph);
  if (c.device >= 0) text += " " + std::to_string(c.device);
  if (c.number >= 0) text += " " + std::to_string(c.number);
  return text;
}

}  // namespace

std::string to_text(const Program& program, const Command& c) {
  std::string text = program.threads > 1 ? "t" + std::to_string(c.thread) + " " : "";
  if (c.stream >= 0) text += stream_name(program, c.stream) + (c.implicit ? " (current): " : ": ");
  text += name_of(c.kind);
  const bool makes = c.kind == Kind::make_array || c.kind == Kind::make_host;
  const bool names_array = makes || c.kind == Kind::drop_array || c.kind == Kind::free_array;
  if (c.kind == Kind::make_stream) text += made_stream(program, c);
  if (c.out.array >= 0 && !names_array) {
    text += " " + sizes(shape_of(program, c.out), decl_of(program, c.out.array).rank);
  }
  for (const Operand& operand : c.in) text += " in " + operand_text(program, operand);
  if (c.out.array >= 0) {
    text += (names_array ? " " : reads_out(c.kind) ? " inout " : " out ") + operand_text(program, c.out);
  }
  if (makes) text += made_array(program, c);
  text += objects(program, c);
  if (c.kind == Kind::free_array && c.fresh) text += " by its own stream";
  static constexpr const char* controls[] = {"", " if", " if/else", " switch", " while"};
  text += controls[static_cast<std::size_t>(c.control)];
  if (c.control != Control::none) text += " " + std::to_string(c.turns) + " times";
  static constexpr const char* changes[] = {" kernel", " off", " on"};
  if (c.kind == Kind::update_graph) text += changes[static_cast<std::size_t>(c.change)];
  if (c.delay > 0) text += " delay " + std::to_string(c.delay);
  if (c.kind == Kind::make_graph) {
    for (const Command& inner : graph_of(program, c).body) text += "\n    " + to_text(program, inner);
  }
  return c.sabotaged ? text + "   <- sabotaged" : text;
}

std::string to_text(const Program& program) {
  std::string text;
  for (const Command& c : program.commands) text += to_text(program, c) + "\n";
  return text;
}

}  // namespace weir::stress
