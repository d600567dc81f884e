// Commands of a recording for the engine.
#include "check/commands.hpp"

namespace weir::check {

using recorded::Target;

CollectiveCall collective_call(const recorded::Collective& made, const char* call,
                               const std::function<const char*(recorded::Name)>& text) {
  return {.communicator = made.communicator,
          .number = made.number,
          .unit = made.unit,
          .rank = made.rank,
          .size = made.ranks,
          .from = made.from,
          .to = made.to,
          .name = call,
          .of = made.name == recorded::none ? std::to_string(made.communicator) : text(made.name)};
}

void tell(Engine& engine, const Call& call, const recorded::Command& command, const Parts& parts,
          const std::function<const char*(recorded::Name)>& text) {
  const std::uint32_t stream = command.stream;
  const std::uint32_t event = command.target_kind == Target::event ? command.target : none;
  switch (command.op) {
    case Op::launch:
    case Op::external:
      if (parts.collective) {
        const CollectiveCall made = collective_call(*parts.collective, text(command.name), text);
        engine.begin_collective(call, stream, made);
        engine.work(call, stream, command.op, text(command.name), parts.uses, parts.gives);
        return engine.collective(call, stream, made);
      }
      [[fallthrough]];
    case Op::host_function:
    case Op::copy:
    case Op::fill: return engine.work(call, stream, command.op, text(command.name), parts.uses, parts.gives);
    case Op::alloc: return engine.alloc(call, command.target, stream);
    case Op::free: return engine.free(call, command.target, stream);
    case Op::record: return engine.record(call, stream, event, command.flag || parts.timed, command.flag);
    case Op::wait:
      // That a collective orders streams the engine knows better: what came behind a part meanwhile is no part of it.
      if (command.target_kind == Target::stream && command.flag) return;
      if (command.target_kind == Target::stream) return engine.wait_stream(call, stream, command.target);
      return engine.wait(call, stream, event, command.flag);
    case Op::synchronize:
      switch (command.target_kind) {
        case Target::event: return engine.synchronize_event(call, event);
        case Target::device: return engine.synchronize_device(call, command.target);
        case Target::all: return engine.synchronize_all(call);
        default: return engine.synchronize_stream(call, stream);
      }
    case Op::query:
      if (!command.flag) return engine.not_done(call, event == none ? stream : none, event);
      return event != none ? engine.synchronize_event(call, event, true)
                           : engine.synchronize_stream(call, stream, true);
    case Op::host_read:
    case Op::host_write: return engine.host_access(call, command.op, parts.uses);
    case Op::host_open: return parts.uses.empty() ? void() : engine.open(call, command.target, parts.uses.front());
    case Op::host_close: return engine.close(call, command.target);
    case Op::give: return engine.give(call, command.target);
    case Op::take: return engine.take(call, command.target);
    case Op::make: return event != none ? engine.made_event(event) : engine.made_stream(call, stream);
    case Op::drop:
      if (command.target_kind == Target::graph) return engine.drop_graph(command.target);
      return event != none ? engine.drop_event(event) : engine.drop_stream(call, stream);
    case Op::begin_capture: return engine.begin_capture(call, stream);
    case Op::end_capture: return engine.end_capture(call, stream, command.target);
    case Op::launch_graph: return engine.launch_graph(call, stream, command.target);
    case Op::build_graph: return engine.build(call, command.target, parts.nodes, text);
    case Op::update_node: return engine.update(call, command.target, text(command.name), parts.uses, command.ends);
    case Op::enable_node: return engine.enable(call, command.target, text(command.name), command.flag);
    default: return;
  }
}

}  // namespace weir::check
