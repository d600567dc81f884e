// What commands name: streams, events, memory with its bounds, costs and source lines.
#include <algorithm>
#include <limits>

#include "scenario/decoder.hpp"

namespace weir::scenario {

std::uint32_t Decoder::place(const At& at, Section section, const char* what) const {
  const auto known = recording_.find(at.name());
  const std::uint32_t found = known ? places_[section].find(*known) : none;
  if (found != none) return found;
  if (!complete_[section]) throw NotYet{};
  at.fault("no " + std::string(what) + " is named " + shown(at.string()));
}

std::uint32_t Decoder::stream_named(const At& at) const {
  const std::uint32_t found = place(at, streams, "stream");
  if (!stream_made_[found]) at.fault(shown(at.string()) + " is made later");
  return found;
}

std::uint32_t Decoder::event_named(const At& at) const {
  const std::uint32_t found = place(at, events, "event");
  if (!event_made_[found]) at.fault(shown(at.string()) + " is made later");
  return found;
}

Name Decoder::graph_named(const At& at) const {
  const auto known = recording_.find(at.name());
  if (!known || graphs_.find(*known) == none) at.fault("no graph " + shown(at.string()) + " was made before");
  return *known;
}

std::uint32_t Decoder::live_buffer(const At& at, const Draft& draft) const {
  const std::uint32_t found = place(at, buffers, "buffer");
  const auto& now = draft.allocated;
  if (!buffer_made_[found] && std::find(now.begin(), now.end(), found) == now.end()) {
    at.fault(shown(at.string()) + " is allocated later, or never");
  }
  return found;
}

std::uint32_t Decoder::allocated_buffer(const At& at, Draft& draft) const {
  const std::uint32_t found = place(at, buffers, "buffer");
  if (!recording_.buffers()[found].later)
    at.fault(shown(at.string()) + " is there from the start: it needs \"start\": \"later\"");
  auto& now = draft.allocated;
  if (buffer_made_[found] || std::find(now.begin(), now.end(), found) != now.end()) {
    at.fault(shown(at.string()) + " is allocated twice");
  }
  now.push_back(found);
  return found;
}

Use Decoder::operand(const At& at, const Draft& draft) const {
  Use use;
  if (at.value().kind == Value::Kind::string) {
    use.buffer = live_buffer(at, draft);
    use.bytes = recording_.buffers()[use.buffer].bytes;
    return use;
  }
  at.only({"buffer", "offset", "bytes", "repeat", "access", "raw"});
  use.buffer = live_buffer(at.member("buffer"), draft);
  const std::uint64_t size = recording_.buffers()[use.buffer].bytes;
  if (at.has("offset")) use.offset = at.member("offset").count();
  if (use.offset > size) at.fault_at("offset", "it is beyond the " + std::to_string(size) + " bytes of the buffer");
  use.bytes = at.has("bytes") ? at.member("bytes").count() : size - use.offset;
  if (at.has("repeat")) {
    const At repeat = at.member("repeat");
    repeat.is_array();
    if (repeat.size() > recorded::most_repeats_in_files) repeat.fault("there are more than 3");
    for (std::size_t d = 0; d < repeat.size(); ++d) {
      const At pair = repeat.item(d);
      pair.is_array();
      if (pair.size() != 2) pair.fault("it must be a count and a stride");
      use.repeat[d] = {pair.item(0).count(), pair.item(1).count()};
    }
    use.dimensions = static_cast<std::uint8_t>(repeat.size());
  }
  if (at.has("access"))
    use.access = static_cast<Access>(at.member("access").one_of({"in", "out", "inout", "accumulate"}));
  use.raw = at.has("raw") && at.member("raw").boolean();
  if (use.extent() > size - use.offset) {
    at.fault_at(at.has("repeat") ? "repeat" : "bytes",
                "it ends beyond the " + std::to_string(size) + " bytes of the buffer");
  }
  if (use.total() == std::numeric_limits<std::uint64_t>::max()) at.fault_at("repeat", "it is more than can be counted");
  return use;
}

std::vector<Use> Decoder::operands(const At& at, const Draft& draft) const {
  at.is_array();
  std::vector<Use> uses;
  uses.reserve(at.size());
  for (std::size_t i = 0; i < at.size(); ++i) uses.push_back(operand(at.item(i), draft));
  return uses;
}

void Decoder::sides(const At& at, std::vector<Use>& uses, const Draft& draft) const {
  uses = {operand(at.member("to"), draft), operand(at.member("from"), draft)};
  // A side says by itself what is done to it.
  uses[0].access = Access::out;
  uses[1].access = Access::in;
  if (uses[0].total() != uses[1].total()) {
    at.fault_at("from",
                "it has " + std::to_string(uses[1].total()) + " bytes, and `to` " + std::to_string(uses[0].total()));
  }
}

Cost Decoder::cost(const At& at) const {
  at.only({"ns", "bytes", "blocks", "threads", "block_ns", "shared_bytes"});
  if (at.value().keys.empty()) at.fault("it says nothing");
  Cost cost;
  if (at.has("ns")) cost.ns = at.member("ns").duration();
  if (at.has("bytes")) cost.bytes = at.member("bytes").count();
  if (at.has("blocks")) cost.blocks = at.member("blocks").count();
  if (at.has("threads")) cost.threads = at.member("threads").count();
  if (at.has("block_ns")) cost.block_ns = at.member("block_ns").duration();
  if (at.has("shared_bytes")) cost.shared_bytes = at.member("shared_bytes").count();
  return cost;
}

std::uint64_t Decoder::communicator(const At& at, Name& name) {
  const std::uint64_t number = at.member("communicator").count();
  if (number == 0) at.fault_at("communicator", "they are counted from 1");
  if (at.has("name")) name = text(at.member("name"));
  return number;
}

recorded::Collective Decoder::call_of_rank(const At& at) {
  at.only({"command", "communicator", "name", "number", "unit", "rank", "ranks", "from", "to"});
  recorded::Collective made;
  made.communicator = communicator(at, made.name);
  constexpr std::uint64_t most = std::numeric_limits<std::int32_t>::max();
  const std::uint64_t ranks = at.has("ranks") ? at.member("ranks").count() : most;
  if (ranks == 0 || ranks > most) at.fault_at("ranks", "no communicator has as many");
  if (at.has("ranks")) made.ranks = static_cast<std::int32_t>(ranks);
  const auto rank = [&](const char* member) {
    const std::uint64_t given = at.member(member).count();
    if (given >= ranks) at.fault_at(member, "the communicator has no such rank");
    return static_cast<std::int32_t>(given);
  };
  made.rank = rank("rank");
  if (at.has("number")) made.number = at.member("number").count();
  if (at.has("unit")) made.unit = at.member("unit").count();
  if (at.has("from") || at.has("to")) {
    made.from = rank("from");
    made.to = rank("to");
    if (made.rank != made.from && made.rank != made.to) at.fault_at("rank", "it neither sends nor receives");
  } else if (made.number == 0) {
    at.fault_at("number", "calls are counted from 1");
  }
  return made;
}

/// Of what the program does not say of one of its commands: which it is.
std::uint64_t Decoder::place_in_program(const At& at) const {
  if (!complete_[program]) throw NotYet{};
  const std::uint64_t place = at.member("command").count();
  if (place >= recording_.size()) {
    at.fault_at("command", "the program has " + std::to_string(recording_.size()) + " commands");
  }
  return place;
}

void Decoder::collective(const At& at) {
  if (at.value().kind != Value::Kind::object) at.only({});
  const std::uint64_t place = place_in_program(at);
  const Command& command = recording_.command(place);
  if (command.op == Op::launch || command.op == Op::external) {
    recording_.set_collective(place, call_of_rank(at));
  } else if (command.op == Op::build_graph) {
    at.only({"command", "node", "communicator", "name"});
    const At named = at.member("node");
    const auto nodes = recording_.nodes(command);
    const auto node = std::find_if(nodes.begin(), nodes.end(), [&](const Node& one) {
      return (one.op == Op::launch || one.op == Op::external) && recording_.text(one.name) == named.name();
    });
    if (node == nodes.end()) named.fault("no launch or external of this name is in the list");
    recorded::Collective made;
    made.communicator = communicator(at, made.name);
    recording_.set_collective(place, made, static_cast<std::size_t>(node - nodes.begin()));
  } else {
    at.only({"command"});
    const bool orders = command.op == Op::wait && command.target_kind == Target::stream;
    if (!orders) at.fault_at("command", "it is no launch, external, wait for a stream or graph that is built");
    recording_.set_collective(place, {});
  }
}

void Decoder::source_line(const At& at, Name& file, std::uint32_t& line) {
  if (at.has("file")) file = text(at.member("file"));
  if (!at.has("line")) return;
  const std::uint64_t given = at.member("line").count();
  if (given >= none) at.fault_at("line", "no file has as many lines");
  line = static_cast<std::uint32_t>(given);
}

}  // namespace weir::scenario
