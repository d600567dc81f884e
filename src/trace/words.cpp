// Timelines in words: durations, places, and sentences.
#include "trace/words.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace weir::trace {

std::string duration_text(std::int64_t ns) {
  static constexpr std::array<const char*, 4> units = {"ns", "us", "ms", "s"};
  double value = static_cast<double>(ns);
  std::size_t unit = 0;
  while (unit + 1 < units.size() && (value >= 999.5 || value <= -999.5)) {
    value /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %s", value, units[unit]);
  return text;
}

std::string place_text(const Timeline& timeline, Text file, std::uint32_t line) {
  if (file == none) return "";
  return std::string(timeline.text(file)) + ":" + std::to_string(line);
}

namespace {
/// Kernels of templates have names of hundreds of characters, of which sentences would have little else.
std::string shortened(std::string_view name) {
  constexpr std::size_t most = 80;
  if (name.size() <= most) return std::string(name);
  std::size_t end = most - 3;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;  // not inside a character
  return std::string(name.substr(0, end)) + "...";
}
}  // namespace

std::string command_text(const Timeline& timeline, std::uint32_t place) {
  if (place == none) return "";
  const Command& command = timeline.commands[place];
  return shortened(timeline.name_of(command)) + " (" + shortened(timeline.text(timeline.streams[command.stream].name)) +
         ")";
}

std::string_view to_text(Reason reason) {
  static constexpr std::string_view words[reason_count] = {
      "event",     "default stream", "stream order", "pageable copy", "host wait",
      "host late", "engine busy",    "memory",       "allocation",    "work queue",
      "priority",  "rank",           "replay",       "slow start",    "unknown"};
  return words[static_cast<std::size_t>(reason)];
}

namespace {
std::string_view device_text(const Timeline& timeline, std::uint32_t device) {
  const std::string_view name = timeline.text(timeline.devices[device]);
  const std::size_t space = name.rfind(' ');  // in front of it: the process, in merged timelines
  return name.substr(space == name.npos ? 0 : space + 1);
}
}  // namespace

bool is_cpu(const Timeline& timeline, std::uint32_t device) { return device_text(timeline, device).starts_with("cpu"); }

bool is_gpu(const Timeline& timeline, std::uint32_t device) {
  return device_text(timeline, device).starts_with("cuda");
}

namespace {
std::string rank_text(const Timeline& timeline, std::uint32_t command) {
  const auto& parts = timeline.collectives;
  const auto part = std::lower_bound(parts.begin(), parts.end(), command,
                                     [](const CollectivePart& one, std::uint32_t at) { return one.command < at; });
  return part == parts.end() || part->command != command ? "?" : std::to_string(part->rank);
}

/// The innermost range of its thread in which it was for most of the time.
const NamedRange* range_of(const Timeline& timeline, std::uint32_t thread, std::int64_t since, std::int64_t until) {
  const NamedRange* found = nullptr;
  for (const NamedRange& range : timeline.ranges) {
    if (range.begin > until) break;
    if (range.thread != thread) continue;
    const std::int64_t end = range.end < 0 ? until : std::min(range.end, until);
    if (2 * (end - std::max(range.begin, since)) > until - since) found = &range;  // those inside it begin later
  }
  return found;
}
/// The last one of its thread that was over in that time.
const HostWait* last_wait(const Timeline& timeline, std::uint32_t thread, std::int64_t since, std::int64_t until) {
  const HostWait* found = nullptr;
  for (const HostWait& wait : timeline.waits) {
    if (wait.begin > until) break;
    if (wait.thread == thread && wait.begin >= since && wait.end <= until) found = &wait;
  }
  return found;
}
std::string spaced(const char* before, const std::string& text) { return text.empty() ? "" : before + text; }
/// What the thread that made the call did instead, from when the device had nothing to do until then.
std::string done_instead(const Timeline& timeline, const Held& held) {
  const Command& late = timeline.commands[held.command];
  std::uint64_t calls = 0;
  const Command* last = nullptr;
  for (std::uint32_t i = held.command; i > 0 && last == nullptr;) {
    const Command& before = timeline.commands[--i];
    if (before.thread != late.thread) continue;
    if (before.call >= held.begin) {
      ++calls;
    } else {
      last = &before;
    }
  }
  std::string made;
  if (const NamedRange* range = range_of(timeline, late.thread, held.begin, late.call)) {
    made += "; its thread was in \"" + std::string(timeline.text(range->name)) + '"';
  }
  if (calls > 0) {
    return made + (made.empty() ? "; its thread" : ", and") + " made " + std::to_string(calls) +
           (calls == 1 ? " other call" : " other calls") + " meanwhile";
  }
  std::string since = last == nullptr ? "" : place_text(timeline, last->file, last->line);
  const HostWait* wait = last_wait(timeline, late.thread, last == nullptr ? -1 : last->call, late.call);
  if (wait != nullptr) since = "the wait" + spaced(" at ", place_text(timeline, wait->file, wait->line));
  if (since.empty()) return made;
  return made + (made.empty() ? "; its thread had" : ", and had") + " called nothing since " + since;
}
}  // namespace

bool is_on_copy_engine(const Timeline& timeline, const Command& command) {
  const bool copies = command.lane >= Lane::copy_in && command.lane <= Lane::copy_device;
  return copies && !is_cpu(timeline, timeline.streams[command.stream].device);
}

void add_words(Held& held, const Timeline& timeline) {
  const std::string one = command_text(timeline, held.command);
  const std::string by = command_text(timeline, held.by);
  const std::string place = place_text(timeline, held.file, held.line);
  const std::string line = place.empty() ? "" : " at " + place;  // not known of programs that do not use Weir
  const Command& command = timeline.commands[held.command];
  const bool is_line_of_by =
      held.by != none && held.file == timeline.commands[held.by].file && held.line == timeline.commands[held.by].line;
  switch (held.reason) {
    case Reason::event:
      if (timeline.commands[held.by].lane == Lane::order) {
        held.why = one + " waited" + line + " for an event of work that was enqueued before the recording began";
        held.change = "record the event right behind what is needed, or make that work shorter";
        break;
      }
      held.why = one + " waited for an event, recorded" + line + " behind " + by;
      held.change = "record the event right behind what is needed, or make " + by + " shorter";
      break;
    case Reason::default_stream:
      held.why = one + " came behind " + by + " only because one of both is in the legacy default stream";
      held.change = "use a stream of its own there, or streams made with .blocking = false";
      break;
    case Reason::stream_order:
      held.why = one + " stood behind " + by + " in its stream, though different engines do them";
      held.change = "if it does not need it, give it another stream, with an event where the data meets";
      break;
    case Reason::pageable_copy:
      if (held.by == held.command) {
        held.why = one + " is of pageable memory, and held the host" + line +
                   "; no copy of pinned memory on the same way was recorded, to say how much faster it would be";
        held.change = "copy pinned memory (weir::pinned, ScopedPin), so that the call returns at once";
        break;
      }
      if (held.end == command.end) {  // it held itself
        held.why = one + " is of pageable memory, and was slower than copies of pinned memory on the same way";
        held.change = "copy pinned memory (weir::pinned, ScopedPin): it needs no copy of the host's in between";
        break;
      }
      held.why = one + " was submitted late: a copy of pageable memory" + line + " held the host";
      held.change = "copy pinned memory (weir::pinned, ScopedPin), so that the call returns at once";
      break;
    case Reason::host_wait:
      held.why = one + " was submitted late: the host waited" + line + (by.empty() ? "" : " for " + by);
      held.change = "wait later, or let a stream wait for an event instead of the host";
      break;
    case Reason::host_late:
      held.why = one + " was submitted late: the device had nothing to do before the call" + line +
                 done_instead(timeline, held);
      held.change = "submit it earlier or from another thread; a graph makes many calls one";
      break;
    case Reason::engine_busy:
      held.why = one + " was ready, but " + by + " kept " +
                 (is_on_copy_engine(timeline, command) ? "its copy engine busy" : "the device full");
      held.change = "nothing holds it but the device: make the work smaller, or give what matters a higher priority";
      break;
    case Reason::memory:
      held.why = one + " waited for memory that " + by + " had used" + (is_line_of_by ? "" : ", freed") + line;
      held.change = "keep the memory, or use a pool for each stream";
      break;
    case Reason::allocation:
      held.why = one + " was submitted late: a call that allocates or frees memory" + line + " held the host" +
                 (by.empty() ? "" : " until " + by + " had ended");
      held.change = "allocate before, or from a pool in the stream's order";
      break;
    case Reason::work_queue:
      held.why = one + " was ready and its engine idle, but it began only with " + by +
                 ", of another stream before it in the device's queue";
      held.change =
          "use fewer streams, ask for more queues (CUDA_DEVICE_MAX_CONNECTIONS, at most 32), or submit it before";
      break;
    case Reason::priority:
      held.why = one + " was ready, but " + by + " came later and went first: its stream has a higher priority";
      held.change = "give it a priority as high, or make the urgent work shorter";
      break;
    case Reason::rank:
      held.why = one + " of rank " + rank_text(timeline, held.command) + " waited for rank " +
                 rank_text(timeline, held.by) + ", which came last" + line;
      held.change = "make what that rank does before it shorter, or give it less to do";
      break;
    case Reason::replay:
      held.why = one + " waited for " + by + ", another replay of the same graph, which never overlap";
      held.change = "give each stream a graph of its own (Graph::clone), or launch them in one stream";
      break;
    case Reason::slow_start: {
      const bool on_cpu = is_cpu(timeline, timeline.streams[command.stream].device);
      const std::string idle = duration_text(held.end - held.begin);
      if (!by.empty()) {
        held.why = one + " came behind " + by +
                   " of its stream, which nothing is known to have held: the device was idle for " + idle +
                   " before it, or did work that was enqueued before the recording began";
      } else {
        held.why = one + " was ready and the device idle, and nothing held it: " +
                   (on_cpu ? "no worker took it for " + idle : "the device took " + idle + " to begin it");
      }
      held.change = on_cpu ? "fewer and larger commands; or leave the cores to the workers, if other threads have them"
                           : "submit it while the device is at work, or make many short commands fewer, or a graph";
      break;
    }
    case Reason::unknown: break;
  }
}

}  // namespace weir::trace
