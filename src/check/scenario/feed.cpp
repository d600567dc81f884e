// Scenarios for the engine.
#include "check/scenario/feed.hpp"

#include <cstdlib>
#include <utility>

#include "check/commands.hpp"

namespace weir::check {

using recorded::Command;
using recorded::Target;

EngineOptions ScenarioFeed::engine_options(const CheckOptions& options, const Rules& rules) {
  EngineOptions made;
  made.host_order = options.host_order;
  made.hints = options.hints;
  made.rules = rules;
  made.command_text = [this](std::uint64_t command) { return recording_.id(command); };
  made.device_text = [this](std::uint32_t device) { return device_name(device); };
  made.thread_text = [this](std::uint32_t thread) {
    return recording_.threads().size() < 2 ? std::string() : recording_.text(recording_.threads()[thread]);
  };
  made.graph_text = [this](std::uint32_t graph) { return std::string(recording_.text(graph)); };
  made.found = [this](Finding finding) { collector_.add(std::move(finding)); };
  return made;
}

std::string ScenarioFeed::device_name(std::uint32_t place) const {
  if (place == 0) return device_;
  const std::size_t colon = device_.find(':');
  const std::size_t first = colon == std::string::npos ? 0 : std::strtoul(device_.c_str() + colon + 1, nullptr, 10);
  return device_.substr(0, colon) + ":" + std::to_string(first + place);
}

ScenarioFeed::ScenarioFeed(const Recording& recording, const CheckOptions& options, std::string file,
                           std::string device, SourceLocation where, const Rules& rules)
    : recording_(recording),
      file_(std::move(file)),
      device_(std::move(device)),
      host_order_(options.host_order),
      collector_(options, where),
      engine_(engine_options(options, rules)) {
  for (const recorded::Stream& stream : recording.streams()) {
    streams_.push_back(engine_.add_stream({recording.text(stream.name), stream.device, stream.kind}));
  }
  for (const recorded::Event& event : recording.events())
    events_.push_back(engine_.add_event(recording.text(event.name)));
  for (const recorded::Buffer& buffer : recording.buffers()) {
    BufferFact fact;
    fact.name = recording.text(buffer.name);
    fact.kind = buffer.kind;
    fact.owner = buffer.owner;
    fact.bytes = buffer.bytes;
    fact.device = buffer.device;
    fact.home = buffer.home == none ? none : streams_[buffer.home];
    fact.live = !buffer.later;
    fact.written = buffer.written;
    engine_.add_buffer(fact);
  }
}

void ScenarioFeed::refused(std::size_t place, const Misuse& misuse, const Call& call) {
  const Command& command = recording_.command(place);
  // Whatever is refused at the end of a capture, the capture has ended.
  if (command.op == Op::end_capture) engine_.end_capture(call, streams_[command.stream], none);
  Finding made;
  made.kind = FindingKind::misuse;
  made.errc = name_of(misuse.errc);
  made.what = misuse.what;
  Side side;
  side.command = recording_.id(place);
  side.op = recorded::to_text(command.op);
  side.name = recording_.text(command.name);
  if (command.stream != none && command.op != Op::build_graph) {
    side.stream = recording_.text(recording_.streams()[command.stream].name);
    side.device = device_name(recording_.streams()[command.stream].device);
  }
  side.thread = command.thread;
  side.file = call.file;
  side.line = call.line;
  made.second = std::move(side);
  made.why = "the library refuses the call: " + made.errc;
  made.key = "misuse:" + recording_.id(place) + "::";
  collector_.add(std::move(made));
}

void ScenarioFeed::call(std::size_t place, const Misuse* misuse) {
  const Command& command = recording_.command(place);
  const SourceLocation where = recording_.where(place, file_.c_str());
  const Call call{command.thread, place, where.file_name(), where.line()};
  if (misuse != nullptr) {
    refused(place, *misuse, call);
  } else {
    make(command, call);
  }
}

void ScenarioFeed::make(const Command& command, const Call& call) {
  std::vector<Use> uses;
  for (std::size_t i = 0; i < command.use_count; ++i) uses.push_back(recording_.use(command, i));
  Command here = command;
  if (command.stream != none && command.op != Op::build_graph) here.stream = streams_[command.stream];
  if (command.target_kind == Target::stream && command.target != none) here.target = streams_[command.target];
  Parts parts{uses, recording_.gives(command), recording_.nodes(command)};
  parts.collective = recording_.collective(command);
  if (command.target_kind == Target::event) {
    here.target = events_[command.target];
    parts.timed = recording_.events()[command.target].timed;
  }
  tell(engine_, call, here, parts, [this](recorded::Name name) { return recording_.text(name); });
}

CheckReport ScenarioFeed::report() {
  if (!std::exchange(finished_, true)) engine_.finish();
  CheckReport made = collector_.report();
  made.program = file_;
  made.device = device_;
  made.host_order = host_order_;
  made.unchecked = engine_.unchecked();
  made.commands = recording_.size();
  return made;
}

}  // namespace weir::check

namespace weir {

ScenarioChecker::ScenarioChecker(const Recording& recording, const CheckOptions& options, std::string file,
                                 std::string device, SourceLocation where)
    : recording_(&recording),
      feed_(std::make_unique<check::ScenarioFeed>(recording, options, std::move(file), std::move(device), where)) {}
ScenarioChecker::~ScenarioChecker() = default;

void ScenarioChecker::after(std::size_t command, const Misuse* misuse) { feed_->call(command, misuse); }

void ScenarioChecker::all(const std::vector<Misuse>& refused) {
  for (std::size_t i = 0; i < recording_->size(); ++i) {
    const Misuse* found = nullptr;
    for (const Misuse& one : refused) {
      if (one.command == i) found = &one;
    }
    feed_->call(i, found);
  }
}

CheckReport ScenarioChecker::report() const { return feed_->report(); }

}  // namespace weir
