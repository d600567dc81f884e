// The calls of commands that are no graphs'.
#include <algorithm>
#include <utility>

#include <weir/error.hpp>
#include <weir/host_call.hpp>

#include "back_off.hpp"
#include "scenario/run_state.hpp"

namespace weir::scenario {

namespace {

using recorded::Op;
using recorded::Target;

constexpr const char* operation = "weir::run_scenario";

/// What a host function does: lasts, and gives, even if it is dropped unrun.
class Work {
 public:
  Work(double ns, std::vector<recorded::Name> gives, std::shared_ptr<HandOffs> hand_offs, SourceLocation where)
      : ns_(ns), gives_(std::move(gives)), hand_offs_(std::move(hand_offs)), where_(where) {}
  ~Work() {
    if (ran_) return;
    for (const recorded::Name name : gives_) hand_offs_->give_up(name);
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  void run() {
    spin(ns_);
    ran_ = true;
    for (const recorded::Name name : gives_) hand_offs_->give(name, where_);
  }

 private:
  double ns_;
  std::vector<recorded::Name> gives_;
  std::shared_ptr<HandOffs> hand_offs_;
  SourceLocation where_;
  bool ran_ = false;
};

/// Bytes with their repetitions as four dimensions, the innermost last; without them where a fifth one is needed.
AnyView<Byte> view_of(Byte* data, const recorded::Use& given) {
  recorded::Use use = given;
  if (use.dimensions == max_rank) use = {.buffer = use.buffer, .offset = use.offset, .bytes = use.total()};
  std::size_t sizes[max_rank] = {1, 1, 1, static_cast<std::size_t>(use.bytes)};
  std::array<std::ptrdiff_t, max_rank> strides = {1, 1, 1, 1};
  for (std::size_t d = 0; d < use.dimensions; ++d) {
    sizes[max_rank - 2 - d] = static_cast<std::size_t>(use.repeat[d].count);
    strides[max_rank - 2 - d] = static_cast<std::ptrdiff_t>(use.repeat[d].stride);
  }
  return AnyView<Byte>(data == nullptr ? nullptr : data + use.offset, Shape::of(max_rank, sizes), strides);
}

Access access_of(recorded::Access access) {
  switch (access) {
    case recorded::Access::in: return Access::read;
    case recorded::Access::out: return Access::write;
    case recorded::Access::accumulate: return Access::accumulate;
    default: return Access::read_write;
  }
}

}  // namespace

const char* RunState::text_or_null(recorded::Name name) const {
  return name == recorded::none ? nullptr : recording_.text(name);
}

Argument<Byte> RunState::argument(const recorded::Use& use, SourceLocation where) {
  RunBuffer& buffer = buffers_[use.buffer];
  Argument<Byte> made{view_of(buffer.data, use), nullptr, access_of(use.access), where};
  if (declared(use.buffer).owner != recorded::Owner::array || use.raw) {
    if (buffer.ended) {
      throw Error(Errc::already_freed, operation, recording_.text(declared(use.buffer).name),
                  "host memory that is gone", where);
    }
    return made;
  }
  made.storage = inout(buffer.array, where).storage;
  return made;
}

std::vector<recorded::Use> RunState::uses_of(const recorded::Command& command) const {
  std::vector<recorded::Use> all;
  for (std::size_t i = 0; i < command.use_count; ++i) all.push_back(recording_.use(command, i));
  return all;
}
std::vector<Argument<Byte>> RunState::arguments(const recorded::Command& command, SourceLocation where) {
  return arguments(uses_of(command), where);
}
std::vector<Argument<Byte>> RunState::arguments(std::span<const recorded::Use> uses, SourceLocation where) {
  std::vector<Argument<Byte>> all;
  for (const recorded::Use& use : uses) all.push_back(argument(use, where));
  return all;
}

CopyEnd RunState::copy_end(const recorded::Use& use, const recorded::Use& other, SourceLocation where) {
  const Argument<Byte> found = argument(use, where);
  AnyView<Byte> view = found.view;
  // A side without repetitions takes the other's shape.
  if (use.dimensions == 0 && other.dimensions != 0) view = AnyView<Byte>(view.data(), view_of(nullptr, other).shape());
  if (found.storage != nullptr) return Slice<Byte>(found.storage, view);
  if (declared(use.buffer).owner == recorded::Owner::user && use.dimensions == 0 && !use.raw) {
    return std::span<Byte>(view.data(), static_cast<std::size_t>(use.bytes));
  }
  return view;
}

void RunState::call(std::size_t place) {
  const recorded::Command& command = recording_.command(place);
  const SourceLocation at = where(place);
  if (captures_ > 0) note_captured(place, at);
  switch (command.op) {
    case Op::launch: {
      const char* name = text_or_null(command.name);
      if (name == nullptr && simulated()) name = "kernel";
      return launch(stream(command.stream), name, computing(name, recording_.cost(command), uses_of(command)),
                    arguments(command, at), at);
    }
    case Op::external:
    case Op::host_function: return host_function(command, at);
    case Op::copy: {
      const recorded::Use to = recording_.use(command, 0), from = recording_.use(command, 1);
      CopyEnd target = copy_end(to, from, at), source = copy_end(from, to, at);
      return std::visit([&](auto& t, auto& f) { copy(stream(command.stream), t, f, at); }, target, source);
    }
    case Op::fill: {
      const recorded::Use to = recording_.use(command, 0);
      CopyEnd end = copy_end(to, to, at);
      return std::visit([&](auto& t) { fill(stream(command.stream), t, Byte{0}, at); }, end);
    }
    case Op::alloc:
      return allocate(command.target, command.stream == recorded::none ? StreamRef() : stream(command.stream), at);
    case Op::free: return free(command, at);
    case Op::record:
      if (command.flag) return record_external(stream(command.stream), events_[command.target].ref, at);
      return stream(command.stream).record(events_[command.target].ref, at);
    case Op::wait:
      if (command.target_kind == Target::stream) return stream(command.stream).wait(stream(command.target), at);
      if (command.flag) return wait_external(stream(command.stream), events_[command.target].ref, at);
      return stream(command.stream).wait(events_[command.target].ref, at);
    case Op::synchronize: return synchronize(command, at);
    case Op::query: return query(command, at);
    case Op::host_read:
    case Op::host_write:
    case Op::host_open: return host_access(command, at);
    case Op::host_close: return static_cast<void>(scopes_.erase(command.target));
    case Op::give: hand_offs_->promise(command.target); return hand_offs_->give(command.target, at);
    case Op::take: return hand_offs_->take(command.target, at);
    case Op::work: return work(duration(recording_.cost(command)));
    case Op::make:
      return command.target_kind == Target::event ? make_event(command.target, at) : make_stream(command.stream, at);
    case Op::drop: return drop(command);
    case Op::begin_capture:
      capture_begin(stream(command.stream), at);
      ++captures_;
      return;
    case Op::end_capture: return end_capture(command, at);
    case Op::launch_graph: {
      const auto found = graphs_.find(command.target);
      return found == graphs_.end() ? Graph().launch(stream(command.stream), at)
                                    : found->second.graph.launch(stream(command.stream), at);
    }
    case Op::build_graph: return build(command, at);
    default: return update(command, at);
  }
}

void RunState::host_function(const recorded::Command& command, SourceLocation where) {
  const auto gives = recording_.gives(command);
  // What is captured runs with the graph, if at all: nobody waits for what it gives.
  bool promised = !gives.empty();
  if (promised) {
    try {
      promised = !is_capturing(stream(command.stream), where);
    } catch (const Error&) {
      promised = false;
    }
  }
  const auto function =
      std::make_shared<Work>(computing(where, recording_.cost(command), uses_of(command)),
                             std::vector<recorded::Name>(gives.begin(), gives.end()), hand_offs_, where);
  if (promised) {
    for (const recorded::Name name : gives) hand_offs_->promise(name);
  }
  // If the call is refused, the function goes, and gives.
  const auto uses = arguments(command, where);
  with_count(
      uses.size(), [&]<std::size_t... I>(std::index_sequence<I...>) {
        if (command.op == Op::external) {
          // On a GPU it enqueues nothing: the stream's order is all that is left of it.
          weir::external(
              StreamArg(stream(command.stream), where),
              [function](NativeStream native) {
                if (native.handle == nullptr) function->run();
              },
              uses[I]...);
        } else {
          host_call(
              StreamArg(stream(command.stream), where), [function] { function->run(); }, uses[I]...);
        }
      });
}

void RunState::free(const recorded::Command& command, SourceLocation where) {
  RunBuffer& buffer = buffers_[command.target];
  switch (declared(command.target).owner) {
    case recorded::Owner::user:  // what the library needs not know, but tools
      return host_gone(buffer.data, static_cast<std::size_t>(declared(command.target).bytes), where);
    case recorded::Owner::pool:
      return pool(declared(command.target).device).free(stream(command.stream), buffer.data, where);
    default:
      if (command.stream != recorded::none) {
        buffer.array.free(stream(command.stream), where);
      } else {
        static_cast<void>(inout(buffer.array, where));
        buffer.array = {};
      }
      // Device memory stays with its pool, host memory does not.
      buffer.ended = declared(command.target).kind != MemoryKind::device;
  }
}

void RunState::synchronize(const recorded::Command& command, SourceLocation where) {
  switch (command.target_kind) {
    case Target::event: return events_[command.target].ref.synchronize(where);
    case Target::device: return device(command.target).synchronize(where);
    case Target::all: return weir::synchronize(where);
    default: return stream(command.stream).synchronize(where);
  }
}

void RunState::query(const recorded::Command& command, SourceLocation where) {
  const auto done = [&] {
    return command.target_kind == Target::event ? events_[command.target].ref.done(where)
                                                : stream(command.stream).done(where);
  };
  if (!command.flag) {
    // Only simulated devices answer as the recorded one did, and what was not done then is not to be known as done now.
    const Device asked = command.target_kind == Target::event ? events_[command.target].ref.device(where)
                                                              : stream(command.stream).device();
    if (asked.backend() == "sim") static_cast<void>(done());
    return;
  }
  for (unsigned looks = 0; !done(); ++looks) detail::back_off(looks);
}

void RunState::host_access(const recorded::Command& command, SourceLocation where) {
  if (command.op == Op::host_open) {
    scopes_.emplace(command.target, open_scope(recording_.use(command, 0), where));
    return;
  }
  std::vector<OpenScope> scopes;
  for (std::size_t i = 0; i < command.use_count; ++i) scopes.push_back(open_scope(recording_.use(command, i), where));
  work(duration(recording_.cost(command)));
}

/// The bytes are left alone: scenarios race on purpose, and what they hold does not matter.
OpenScope RunState::open_scope(const recorded::Use& use, SourceLocation where) {
  if (declared(use.buffer).owner == recorded::Owner::array) {
    static_cast<void>(buffers_[use.buffer].array.host_view(where));
  }
  return OpenScope(region_of(argument(use, where)), where);
}

void RunState::drop(const recorded::Command& command) {
  if (command.target_kind == Target::graph) {
    graphs_.erase(command.target);
  } else if (command.target_kind == Target::event) {
    events_[command.target].plain.reset();
    events_[command.target].timed.reset();
  } else {
    streams_[command.stream].own.reset();
  }
}

}  // namespace weir::scenario
