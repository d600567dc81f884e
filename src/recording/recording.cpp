// Recordings in memory: commands, uses and costs in lists that never move, each text and each use held once.
#include <weir/recording.hpp>

#include <algorithm>
#include <bit>
#include <deque>
#include <limits>
#include <utility>

#include <weir/error.hpp>

#include "recording/chunks.hpp"
#include "recording/texts.hpp"

namespace weir {

namespace recorded {

namespace {

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

std::uint64_t times(std::uint64_t a, std::uint64_t b) { return a != 0 && b > most / a ? most : a * b; }
std::uint64_t plus(std::uint64_t a, std::uint64_t b) { return b > most - a ? most : a + b; }

/// A use without room for repetitions that most have not.
struct PackedUse {
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint32_t buffer;
  std::uint32_t repeat;  ///< the first of them
  Access access;
  bool raw;
  std::uint8_t dimensions;
};

bool same(const PackedUse& packed, const Use& use) {
  return packed.offset == use.offset && packed.bytes == use.bytes && packed.buffer == use.buffer &&
         packed.access == use.access && packed.raw == use.raw && packed.dimensions == use.dimensions;
}

std::size_t hash_of(const Use& use) {
  std::uint64_t hash = use.buffer * std::uint64_t{0x9e3779b97f4a7c15};
  const auto mix = [&](std::uint64_t value) {
    hash = (hash ^ value) * 0xff51afd7ed558ccdull;
    hash ^= hash >> 32;
  };
  mix(use.offset);
  mix(use.bytes);
  mix(static_cast<std::uint64_t>(use.access) | (use.raw ? 8u : 0u) | std::uint64_t{use.dimensions} << 8);
  for (std::size_t d = 0; d < use.dimensions; ++d) {
    mix(use.repeat[d].count);
    mix(use.repeat[d].stride);
  }
  return static_cast<std::size_t>(hash);
}

std::size_t bytes_of(std::span<const Node> nodes) {
  std::size_t bytes = 0;
  for (const Node& node : nodes) {
    bytes += sizeof(Node) + node.uses.size() * sizeof(Use) + node.after.size() * sizeof(std::uint32_t);
    for (const std::vector<Node>& body : node.bodies) bytes += sizeof(body) + bytes_of(body);
  }
  return bytes;
}

/// Beside its uses a command has one kind of thing at most.
bool may_be_collective(Op op) { return op == Op::launch || op == Op::external; }

}  // namespace

std::uint64_t Use::total() const {
  std::uint64_t all = bytes;
  for (std::size_t d = 0; d < dimensions; ++d) all = times(all, repeat[d].count);
  return all;
}

std::uint64_t Use::extent() const {
  std::uint64_t end = bytes;
  for (std::size_t d = 0; d < dimensions; ++d) {
    if (repeat[d].count == 0) return 0;
    end = plus(end, times(repeat[d].count - 1, repeat[d].stride));
  }
  return end;
}

std::string_view to_text(Op op) {
  static constexpr const char* names[op_count] = {
      "launch",      "external",     "host_function", "copy",        "fill",        "alloc",      "free",
      "record",      "wait",         "synchronize",   "query",       "host_read",   "host_write", "host_open",
      "host_close",  "give",         "take",          "work",        "make",        "drop",       "begin_capture",
      "end_capture", "launch_graph", "build_graph",   "update_node", "enable_node", "graph",      "empty",
      "if",          "switch",       "while"};
  return names[static_cast<std::size_t>(op)];
}

}  // namespace recorded

struct Recording::State {
  explicit State(std::size_t limit) : budget(limit) {}

  recorded::Budget budget;
  recorded::Texts texts;
  std::vector<recorded::Device> devices;
  std::vector<recorded::Name> threads;
  std::vector<recorded::Stream> streams;
  std::vector<recorded::Event> events;
  std::vector<recorded::Buffer> buffers;
  recorded::Chunks<recorded::Command> commands;
  recorded::Chunks<recorded::PackedUse> uses;  ///< each once
  recorded::PlaceTable use_table;
  recorded::Chunks<recorded::Repeat> repeats;
  recorded::Chunks<std::uint32_t> use_lists;
  recorded::Chunks<std::uint64_t> costs;
  std::deque<std::vector<recorded::Name>> gives;
  recorded::Chunks<recorded::Collective> collectives;
  std::deque<std::vector<recorded::Node>> graphs;
  std::deque<std::vector<recorded::NodeWork>> works;

  template <class T>
  std::uint32_t add(std::vector<T>& list, const T& value) {
    budget.take(2 * sizeof(T));  // it doubles
    list.push_back(value);
    return static_cast<std::uint32_t>(list.size() - 1);
  }

  recorded::Use unpacked(std::uint32_t place) const {
    const recorded::PackedUse& packed = uses[place];
    recorded::Use use{packed.buffer, packed.access, packed.raw, packed.dimensions, packed.offset, packed.bytes, {}};
    for (std::size_t d = 0; d < use.dimensions; ++d) use.repeat[d] = repeats[packed.repeat + d];
    return use;
  }
  std::uint32_t intern(const recorded::Use& use) {
    const std::size_t hash = recorded::hash_of(use);
    const std::uint32_t found = use_table.find(hash, [&](std::uint32_t place) {
      return recorded::same(uses[place], use) && (use.dimensions == 0 || unpacked(place) == use);
    });
    if (found != recorded::none) return found;
    use_table.reserve(budget, [&](std::uint32_t place) { return recorded::hash_of(unpacked(place)); });
    const auto repeat = static_cast<std::uint32_t>(repeats.size());
    for (std::size_t d = 0; d < use.dimensions; ++d) repeats.push(use.repeat[d], budget);
    uses.push({use.offset, use.bytes, use.buffer, repeat, use.access, use.raw, use.dimensions}, budget);
    const auto place = static_cast<std::uint32_t>(uses.size() - 1);
    use_table.insert(hash, place);
    return place;
  }
  /// Which members there are, and these.
  std::uint32_t keep(const recorded::Cost& cost) {
    const auto place = static_cast<std::uint32_t>(costs.size());
    const auto bits = [](const std::optional<double>& value) {
      return value ? std::optional(std::bit_cast<std::uint64_t>(*value)) : std::nullopt;
    };
    const std::optional<std::uint64_t> values[] = {bits(cost.ns), cost.bytes,          cost.blocks,
                                                   cost.threads,  bits(cost.block_ns), cost.shared_bytes};
    std::uint64_t present = 0;
    for (std::size_t i = 0; i < 6; ++i) present |= values[i] ? std::uint64_t{1} << i : 0;
    costs.push(present, budget);
    for (const auto& value : values) {
      if (value) costs.push(*value, budget);
    }
    return place;
  }
};

Recording::Recording(std::size_t limit) : state_(std::make_unique<State>(limit)) {}
Recording::Recording(Recording&&) noexcept = default;
Recording& Recording::operator=(Recording&&) noexcept = default;
Recording::~Recording() = default;

std::size_t Recording::bytes() const { return state_->budget.used(); }
std::size_t Recording::limit() const { return state_->budget.limit(); }

recorded::Name Recording::intern(std::string_view text) { return state_->texts.intern(text, state_->budget); }
std::optional<recorded::Name> Recording::find(std::string_view text) const {
  const recorded::Name found = state_->texts.find(text);
  return found == recorded::none ? std::nullopt : std::optional(found);
}
const char* Recording::text(recorded::Name name) const { return name == recorded::none ? "" : state_->texts[name]; }

const std::vector<recorded::Device>& Recording::devices() const { return state_->devices; }
const std::vector<recorded::Name>& Recording::threads() const { return state_->threads; }
const std::vector<recorded::Stream>& Recording::streams() const { return state_->streams; }
const std::vector<recorded::Event>& Recording::events() const { return state_->events; }
const std::vector<recorded::Buffer>& Recording::buffers() const { return state_->buffers; }

std::uint32_t Recording::add(const recorded::Device& device) { return state_->add(state_->devices, device); }
std::uint32_t Recording::add_thread(recorded::Name thread) { return state_->add(state_->threads, thread); }
std::uint32_t Recording::add(const recorded::Stream& stream) { return state_->add(state_->streams, stream); }
std::uint32_t Recording::add(const recorded::Event& event) { return state_->add(state_->events, event); }
std::uint32_t Recording::add(const recorded::Buffer& buffer) { return state_->add(state_->buffers, buffer); }

std::size_t Recording::size() const { return state_->commands.size(); }
const recorded::Command& Recording::command(std::size_t place) const { return state_->commands[place]; }

std::size_t Recording::add(const recorded::Command& command, const recorded::Details& details) {
  State& state = *state_;
  recorded::Command kept = command;
  kept.first_use = static_cast<std::uint32_t>(state.use_lists.size());
  kept.use_count = static_cast<std::uint32_t>(details.uses.size());
  kept.cost = details.cost ? state.keep(*details.cost) : recorded::none;
  kept.extra = recorded::none;
  for (const recorded::Use& use : details.uses) state.use_lists.push(state.intern(use), state.budget);
  if (command.op == recorded::Op::build_graph) {
    state.budget.take(sizeof(details.nodes) + recorded::bytes_of(details.nodes));
    state.graphs.emplace_back(details.nodes.begin(), details.nodes.end());
    kept.extra = static_cast<std::uint32_t>(state.graphs.size() - 1);
  } else if (recorded::may_be_collective(command.op)) {
    if (details.collective) {
      state.collectives.push(*details.collective, state.budget);
      kept.extra = static_cast<std::uint32_t>(state.collectives.size() - 1);
    }
  } else if (!details.gives.empty()) {
    state.budget.take(sizeof(details.gives) + details.gives.size_bytes());
    state.gives.emplace_back(details.gives.begin(), details.gives.end());
    kept.extra = static_cast<std::uint32_t>(state.gives.size() - 1);
  }
  state.commands.push(kept, state.budget);
  return state.commands.size() - 1;
}

std::size_t Recording::add_like(const recorded::Command& command, std::size_t place) {
  State& state = *state_;
  if (place >= state.commands.size()) {
    throw Error(Errc::invalid_value, "weir::Recording::add_like", "command " + std::to_string(place),
                "there are " + std::to_string(state.commands.size()) + " commands", {});
  }
  const recorded::Command& like = state.commands[place];
  recorded::Command& kept = state.commands.add(state.budget);
  kept = command;
  kept.first_use = like.first_use;
  kept.use_count = like.use_count;
  kept.cost = recorded::none;
  kept.extra = recorded::none;
  return state.commands.size() - 1;
}

void Recording::set_cost(std::size_t place, const recorded::Cost& cost) {
  state_->commands[place].cost = state_->keep(cost);
}

void Recording::add_give(std::size_t place, recorded::Name name) {
  State& state = *state_;
  state.budget.take(sizeof(name));
  recorded::Command& command = state.commands[place];
  if (command.extra == recorded::none) {
    state.gives.emplace_back();
    command.extra = static_cast<std::uint32_t>(state.gives.size() - 1);
  }
  state.gives[command.extra].push_back(name);
}

void Recording::add_work(std::size_t place, const recorded::NodeWork& work) {
  State& state = *state_;
  if (place >= state.commands.size() || state.commands[place].op != recorded::Op::launch_graph) {
    throw Error(Errc::invalid_value, "weir::Recording::add_work", "command " + std::to_string(place),
                "it is no launch of a graph", {});
  }
  recorded::Command& command = state.commands[place];
  if (command.extra == recorded::none) {
    state.budget.take(sizeof(state.works[0]));
    state.works.emplace_back();
    command.extra = static_cast<std::uint32_t>(state.works.size() - 1);
  }
  state.budget.take(2 * sizeof(work));  // it doubles
  state.works[command.extra].push_back(work);
}

void Recording::set_collective(std::size_t place, const recorded::Collective& made, std::size_t node) {
  State& state = *state_;
  recorded::Command* const command = place < state.commands.size() ? &state.commands[place] : nullptr;
  if (command != nullptr && recorded::may_be_collective(command->op)) {
    state.collectives.push(made, state.budget);
    command->extra = static_cast<std::uint32_t>(state.collectives.size() - 1);
  } else if (command != nullptr && command->op == recorded::Op::wait &&
             command->target_kind == recorded::Target::stream) {
    command->flag = true;
  } else if (command != nullptr && command->op == recorded::Op::build_graph &&
             node < state.graphs[command->extra].size()) {
    state.graphs[command->extra][node].communicator = made.communicator;
    state.graphs[command->extra][node].communicator_name = made.name;
  } else {
    throw Error(Errc::invalid_value, "weir::Recording::set_collective", "command " + std::to_string(place),
                "it is no launch, external, wait for a stream or node of a graph", {});
  }
}

void Recording::resolve(const std::function<void(recorded::Use&)>& place) {
  State& state = *state_;
  for (std::size_t i = 0; i < state.uses.size(); ++i) {
    recorded::Use use = state.unpacked(static_cast<std::uint32_t>(i));
    place(use);
    state.uses[i].buffer = use.buffer;
    state.uses[i].offset = use.offset;
  }
  const auto place_target = [&](auto& named) {
    if (named.target_kind != recorded::Target::buffer) return;
    recorded::Use use;
    use.buffer = named.target;
    place(use);
    named.target = use.buffer;
  };
  const std::function<void(std::vector<recorded::Node>&)> place_nodes = [&](std::vector<recorded::Node>& nodes) {
    for (recorded::Node& node : nodes) {
      std::for_each(node.uses.begin(), node.uses.end(), place);
      place_target(node);
      std::for_each(node.bodies.begin(), node.bodies.end(), place_nodes);
    }
  };
  std::for_each(state.graphs.begin(), state.graphs.end(), place_nodes);
  for (std::size_t i = 0; i < state.commands.size(); ++i) place_target(state.commands[i]);
}

std::string Recording::id(std::size_t place) const {
  const recorded::Name given = command(place).id;
  return given == recorded::none ? "#" + std::to_string(place) : text(given);
}

SourceLocation Recording::where(std::size_t place, const char* file) const {
  const recorded::Command& made = command(place);
  return {made.file == recorded::none ? file : text(made.file),
          made.line == recorded::none ? static_cast<std::uint32_t>(place + 1) : made.line};
}

recorded::Use Recording::use(const recorded::Command& command, std::size_t number) const {
  if (number >= command.use_count) {
    throw Error(Errc::invalid_value, "weir::Recording::use", "use " + std::to_string(number),
                "the command has " + std::to_string(command.use_count) + " uses", {});
  }
  return state_->unpacked(state_->use_lists[command.first_use + number]);
}

std::optional<recorded::Cost> Recording::cost(const recorded::Command& command) const {
  if (command.cost == recorded::none) return std::nullopt;
  std::size_t at = command.cost;
  const std::uint64_t present = state_->costs[at];
  const auto next = [&](unsigned bit) -> std::optional<std::uint64_t> {
    return (present >> bit & 1) != 0 ? std::optional(state_->costs[++at]) : std::nullopt;
  };
  const auto next_ns = [&](unsigned bit) -> std::optional<double> {
    const auto bits = next(bit);
    return bits ? std::optional(std::bit_cast<double>(*bits)) : std::nullopt;
  };
  recorded::Cost cost;
  cost.ns = next_ns(0);
  cost.bytes = next(1);
  cost.blocks = next(2);
  cost.threads = next(3);
  cost.block_ns = next_ns(4);
  cost.shared_bytes = next(5);
  return cost;
}

std::span<const recorded::Name> Recording::gives(const recorded::Command& command) const {
  if (command.op != recorded::Op::host_function || command.extra == recorded::none) return {};
  return state_->gives[command.extra];
}
std::span<const recorded::Node> Recording::nodes(const recorded::Command& command) const {
  if (command.op != recorded::Op::build_graph || command.extra == recorded::none) return {};
  return state_->graphs[command.extra];
}
std::span<const recorded::NodeWork> Recording::works(const recorded::Command& command) const {
  if (command.op != recorded::Op::launch_graph || command.extra == recorded::none) return {};
  return state_->works[command.extra];
}
std::optional<recorded::Collective> Recording::collective(const recorded::Command& command) const {
  if (!recorded::may_be_collective(command.op) || command.extra == recorded::none) return std::nullopt;
  return state_->collectives[command.extra];
}

}  // namespace weir
