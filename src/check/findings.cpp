// From single hits to findings: one for a second use, a buffer and a first side, with a reason and a key.
#include <algorithm>
#include <map>
#include <utility>

#include "check/state.hpp"

namespace weir::check {

namespace {

constexpr std::size_t most_ranges = 64;

const char* text_of(recorded::Access access) {
  static constexpr const char* names[] = {"in", "out", "inout", "accumulate"};
  return names[static_cast<std::size_t>(access)];
}

std::string line_of(const char* file, std::uint32_t line) { return std::string(file) + ":" + std::to_string(line); }

std::string line_of(const Side& side) {
  return side.line == 0 ? "" : side.file.substr(side.file.rfind('/') + 1) + ":" + std::to_string(side.line);
}

std::string id_of(const Side& side) { return side.node.empty() ? side.command : side.command + "/" + side.node; }

}  // namespace

std::string Engine::named(std::uint32_t stream) const {
  return stream == none ? "the host" : stream >= streams_.size() ? "a stream" : streams_[stream]->fact.name;
}

Side Engine::side_of(const Access& access) const {
  const Site& made = sites_[access.site];
  Side side;
  side.command = options_.command_text(access.command);
  side.op = recorded::to_text(made.op);
  side.name = made.name;
  side.thread = made.thread;
  side.thread_name = options_.thread_text(made.thread);
  side.file = made.place.file;
  side.line = made.place.line;
  side.host = access.host != 0;
  side.use = static_cast<std::uint32_t>(access.use == 0xffff ? 0 : access.use);
  if (made.op != Op::alloc && made.op != Op::free) side.access = text_of(access.how());
  if (made.stream != none) {
    side.stream = named(made.stream);
    side.device = options_.device_text(streams_[made.stream]->fact.device);
  }
  return side;
}

Side Engine::side_of(const Second& second, std::size_t use, recorded::Access how, bool host, bool whole) const {
  Side side;
  side.command = options_.command_text(second.call.command);
  side.op = recorded::to_text(second.op);
  side.name = second.name;
  side.thread = second.call.thread;
  side.thread_name = options_.thread_text(second.call.thread);
  side.file = second.call.file;
  side.line = second.call.line;
  side.host = host;
  side.use = static_cast<std::uint32_t>(use);
  if (!whole) side.access = text_of(how);
  if (second.stream != none) {
    side.stream = named(second.stream);
    side.device = options_.device_text(streams_[second.stream]->fact.device);
  }
  if (second.version != nullptr) {
    const GraphNode& node = second.version->nodes()[second.node];
    side.node = node.path;
    if (node.file != nullptr) {
      side.file = node.file;
      side.line = node.line;
    }
  }
  return side;
}

Finding Engine::base(FindingKind kind, const Second&, const Buffer* buffer, const Runs& given) const {
  Finding made;
  made.kind = kind;
  if (buffer != nullptr) {
    FindingBuffer about;
    about.name = buffer->fact.name;
    about.id = buffer->id;
    about.bytes = buffer->fact.bytes;
    about.file = buffer->place.file;
    about.line = buffer->place.line;
    made.buffer = about;
  }
  Runs bytes = given;
  normalise(bytes);
  made.bytes_total = bytes_of(bytes);
  if (bytes.size() > most_ranges) bytes.resize(most_ranges);
  made.bytes = std::move(bytes);
  return made;
}

void Engine::report(Finding finding) {
  const auto id = [this](const FindingPart<Side>& side) {
    return !side ? std::string() : options_.keys_by_line ? line_of(*side) : id_of(*side);
  };
  finding.key = std::string(to_text(finding.kind)) + ":" + id(finding.second) + ":" + id(finding.first) + ":" +
                (finding.buffer ? finding.buffer->name : "");
  if (options_.found) options_.found(std::move(finding));
}

void Engine::warn(FindingKind kind, const Second& second, std::uint32_t which, const Runs& bytes, std::size_t use) {
  Finding made = base(kind, second, buffers_[which].get(), bytes);
  made.severity = Severity::warning;
  const bool leak = kind == FindingKind::leak;
  const auto how = kind == FindingKind::overlapping_arguments ? recorded::Access::out : recorded::Access::in;
  made.second = side_of(second, use, how, second.stream == none, leak);
  if (kind == FindingKind::uninitialised_read) {
    made.why = "no command has written these bytes since the memory was allocated";
  } else if (kind == FindingKind::overlapping_arguments) {
    made.why = "a region that the command writes overlaps another one of its regions, without being the same";
  } else {
    made.why = second.op == Op::alloc ? "the memory was never freed" : "the guard was never closed";
  }
  report(std::move(made));
}

void Engine::hint(FindingKind kind, const Call& call, std::uint32_t stream, Op op, const std::string& why) {
  Finding made;
  made.kind = kind;
  made.severity = Severity::hint;
  made.second = side_of({call, op, stream, ""}, 0, recorded::Access::in, false, true);
  made.why = why;
  const bool ordered = why.empty();
  // By line: only if none of its executions ordered anything.
  for (Hint& one : hints_) {
    const Finding& old = one.finding;
    if (old.kind != kind || old.second->line != made.second->line || old.second->file != made.second->file ||
        (!options_.keys_by_line && old.second->command != made.second->command)) {
      continue;
    }
    one.ordered = one.ordered || ordered;
    ++one.finding.count;
    return;
  }
  hints_.push_back({std::move(made), ordered});
}

/// What the host waited for instead, behind the first use; empty if it did not.
std::string Engine::waited_instead(const Second& second, const Hit& hit) const {
  const std::size_t place = options_.host_order == HostOrder::observed ? 0 : second.call.thread;
  if (place >= threads_.size()) return "";
  for (auto wait = threads_[place]->waits.rbegin(); wait != threads_[place]->waits.rend(); ++wait) {
    if (wait->last_command < hit.first.command || wait->stream == sites_[hit.first.site].stream) continue;
    if (wait->stream == none && wait->device == none) continue;
    std::string what =
        wait->stream == none ? "device " + options_.device_text(wait->device) : "\"" + named(wait->stream) + "\"";
    if (wait->of_event()) what = "what " + what + " recorded at " + line_of(wait->recorded.file, wait->recorded.line);
    return "the host waited at " + line_of(wait->place.file, wait->place.line) + " for " + what;
  }
  return "";
}

/// Of a use by the host.
std::string Engine::why_host(const Second& second, const Hit& hit) const {
  const Site& made = sites_[hit.first.site];
  const Stream& from = *streams_[made.stream];
  const std::string name = "\"" + from.fact.name + "\"";
  if (from.asked_in_vain && from.not_done_behind >= hit.first.command) {
    return name + " was asked at " + line_of(from.not_done.file, from.not_done.line) + ", and the answer was no";
  }
  const std::string instead = waited_instead(second, hit);
  if (!instead.empty()) return instead + ", and not for " + name;
  if (options_.host_order == HostOrder::declared && threads_.size() > 1) {
    return "this host thread has not waited for " + name + ", nor taken what a thread that did has given";
  }
  const std::size_t place = options_.host_order == HostOrder::observed ? 0 : second.call.thread;
  for (auto wait = threads_[place]->waits.rbegin(); wait != threads_[place]->waits.rend(); ++wait) {
    if (wait->stream != made.stream) continue;
    const std::string recorded =
        wait->of_event() ? " by an event recorded at " + line_of(wait->recorded.file, wait->recorded.line) : "";
    return "the host last waited for " + name + " at " + line_of(wait->place.file, wait->place.line) + recorded +
           ", before the " + std::string(recorded::to_text(made.op)) + " was submitted";
  }
  return "the host has not waited for " + name + " since";
}

/// What order there was, and why it does not reach.
std::string Engine::why(const Second& second, const Hit& first, const Side& side) const {
  const Site& made = sites_[first.first.site];
  if (first.kind == FindingKind::use_after_free && second.op != Op::free) {
    return "the memory was given back at " + line_of(made.place.file, made.place.line) + ", before this call";
  }
  if (first.first.tick == never) {
    return "the guard opened at " + line_of(made.place.file, made.place.line) + " is still open";
  }
  if (first.inside) return "no dependency leads from node \"" + side.node + "\" to this one";
  const bool host_second = first.host;
  if (first.first.host != 0) {
    return host_second || second.stream == none
               ? "nothing hands what the other host thread did on to this one"
               : "the host thread that made this call has not learnt of what the other one did";
  }
  if (made.stream == none) return "nothing orders them";
  const Stream& from = *streams_[made.stream];
  if (host_second) return why_host(second, first);
  const Stream& to = *streams_[second.stream];
  for (auto waited = to.waits.rbegin(); waited != to.waits.rend(); ++waited) {
    const std::string at = line_of(waited->place.file, waited->place.line);
    const bool known = waited->event != none && waited->generation == events_[waited->event].generation;
    const bool has_name = known && !events_[waited->event].name.empty();
    const std::string event = has_name ? " (event " + events_[waited->event].name + ")" : "";
    if (waited->empty && known) {
      const Event& never_recorded = events_[waited->event];
      if (never_recorded.stream == made.stream || never_recorded.stream == none) {
        return "\"" + to.fact.name + "\" waited at " + at + event + " for an event that had never been recorded";
      }
    } else if (waited->other == made.stream && waited->launch == std::uint64_t{first.first.command}) {
      return "\"" + to.fact.name + "\" last waited for \"" + from.fact.name + "\" at " + at + event +
             ", which a node of that launch records: no dependency leads to it from node \"" + side.node + "\"";
    } else if (waited->other == made.stream) {
      return "\"" + to.fact.name + "\" last waited for \"" + from.fact.name + "\" at " + at + event + ", recorded at " +
             line_of(waited->recorded.file, waited->recorded.line) + ", before the " +
             std::string(recorded::to_text(made.op)) + " was submitted";
    } else if (waited->before == made.stream) {
      return "\"" + to.fact.name + "\" waited at " + at + event + ", but the event, recorded on \"" + from.fact.name +
             "\" at " + line_of(waited->recorded_before.file, waited->recorded_before.line) +
             ", was recorded again on \"" + named(waited->other) + "\" at " +
             line_of(waited->recorded.file, waited->recorded.line);
    }
  }
  using Kind = recorded::StreamKind;
  if (from.fact.device == to.fact.device) {
    const auto not_blocking = [](const StreamFact& fact) {
      const std::string made_at = fact.line == 0 ? "" : ", made at " + line_of(fact.file, fact.line) + ",";
      return "\"" + fact.name + "\"" + made_at + " is not a blocking stream: ";
    };
    if (from.fact.kind == Kind::legacy && to.fact.kind == Kind::non_blocking)
      return not_blocking(to.fact) + "it does not wait for the legacy stream";
    if (to.fact.kind == Kind::legacy && from.fact.kind == Kind::non_blocking)
      return not_blocking(from.fact) + "the legacy stream does not wait for it";
  }
  const std::string instead = waited_instead(second, first);
  return "nothing orders \"" + to.fact.name + "\" behind \"" + from.fact.name + "\": no wait between them so far" +
         (instead.empty() ? "" : "; " + instead);
}

/// What takes part that others may order, or end, and why.
std::vector<std::pair<std::string, std::string>> Engine::unseen(const Second& second, const Buffer& buffer,
                                                                const Site& from) const {
  std::vector<std::pair<std::string, std::string>> all;
  const bool ends = second.op == Op::free && buffer.fact.owner == recorded::Owner::user;
  if (!buffer.fact.unseen.empty()) {
    all.emplace_back("array '" + buffer.fact.name + "'", buffer.fact.unseen);
  } else if (buffer.fact.owner == recorded::Owner::user && buffer.fact.kind != MemoryKind::pinned && !ends) {
    all.emplace_back("memory '" + buffer.fact.name + "'",
                     "it is the program's own, whose end and reuse nobody announces");
  }
  for (const std::uint32_t stream : {second.stream, from.stream}) {
    if (stream == none || streams_[stream]->fact.unseen.empty()) continue;
    all.emplace_back("stream '" + streams_[stream]->fact.name + "'", streams_[stream]->fact.unseen);
    if (second.stream == from.stream) break;
  }
  return all;
}

/// What one command races with, as findings: one for each buffer and first side.
void Engine::conclude(const Second& second, std::vector<Hit>& found) {
  std::vector<Hit> hits;
  for (const Hit& one : found) {
    const Site& made = sites_[one.first.site];
    if (!one.inside && made.version != nullptr && one.kind != FindingKind::use_before_alloc &&
        one.kind != FindingKind::free_before_alloc) {
      expand(one, made, hits);
    } else {
      hits.push_back(one);
      if (!one.inside && made.node != none) hits.back().node = made.node;
    }
  }
  // Two streams may share a timeline, one after the other.
  const auto side_of_hit = [this](const Hit& hit) {
    return std::make_tuple(hit.buffer, hit.inside ? hit.node : none, Timeline{hit.first.timeline},
                           hit.first.host ? none : sites_[hit.first.site].stream);
  };
  std::map<std::tuple<std::uint32_t, std::uint32_t, Timeline, std::uint32_t>, std::vector<Hit>> sides;
  for (const Hit& hit : hits) sides[side_of_hit(hit)].push_back(hit);
  for (auto& [key, all] : sides) {
    FindingKind kind = FindingKind::write_after_read;
    for (const Hit& hit : all) kind = std::min(kind, hit.kind);
    const Hit* latest = nullptr;
    Runs bytes;
    bool also[finding_kind_count] = {};
    bool host = false;
    for (const Hit& hit : all) {
      bytes.emplace_back(hit.begin, hit.end);
      also[static_cast<std::size_t>(hit.kind)] = true;
      host = host || hit.host;
      if (hit.kind != kind) continue;
      const auto place = [](const Hit& one) { return std::make_pair(Tick{one.first.tick}, one.node); };
      if (latest == nullptr || place(*latest) < place(hit)) latest = &hit;
    }
    const Buffer& buffer = *buffers_[latest->buffer];
    Finding made = base(kind, second, &buffer, bytes);
    for (std::size_t i = 0; i < finding_kind_count; ++i) {
      if (also[i] && i != static_cast<std::size_t>(kind)) made.also.push_back(static_cast<FindingKind>(i));
    }
    const Site& from = sites_[latest->first.site];
    Side first = side_of(latest->first);
    // An array that was filled by the line that made it.
    for (const Hit& hit : all) {
      const Site& filled = sites_[hit.first.site];
      const bool same_line = filled.place.file == from.place.file && filled.place.line == from.place.line;
      if (from.op == Op::alloc && filled.op == Op::fill && same_line) first.name = filled.name;
    }
    if (latest->node != none) {
      const GraphVersion* const version = from.version ? from.version.get() : second.version;
      const GraphNode& node = version->nodes()[latest->node];
      first.node = node.path;
      first.op = recorded::to_text(node.op);
      first.name = node.name;
      if (node.file != nullptr) {
        first.file = node.file;
        first.line = node.line;
      }
      if (kind == FindingKind::use_before_alloc || kind == FindingKind::free_before_alloc) first.access.clear();
    }
    made.second =
        side_of(second, latest->number, latest->how, latest->host || second.stream == none, second.op == Op::free);
    made.severity = Severity::error;
    made.why = why(second, *latest, first);
    for (const auto& [what, reason] : unseen(second, buffer, from)) {
      made.severity = Severity::warning;
      made.why += "; " + what + " may be ordered by calls that nobody sees: " + reason;
      skip(what, reason);
    }
    for (const auto& [side, call] :
         {std::pair{&*made.second, Place{second.call.file, second.call.line}}, {&first, from.place}}) {
      if (side->node.empty() || (side->line == call.line && side->file == call.file)) continue;
      made.why += "; node \"" + side->node + "\" was launched at " + line_of(call.file, call.line);
      if (latest->inside) break;  // both by one launch
    }
    made.first = std::move(first);
    made.mend = mend(second, all, host || second.stream == none);
    report(std::move(made));
  }
}

}  // namespace weir::check
