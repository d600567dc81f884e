// Timelines as columns of numbers.
#include "trace/page/columns.hpp"

#include <algorithm>
#include <new>

#include <zlib.h>

namespace weir::trace {

namespace {

class Writer {
 public:
  void number(std::uint64_t value) {
    while (value > 127) {
      bytes_.push_back(static_cast<char>(value | 128));
      value >>= 7;
    }
    bytes_.push_back(static_cast<char>(value));
  }
  void sign(std::int64_t value) {
    number((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
  }
  void place(std::uint32_t value) { number(static_cast<std::uint32_t>(value + 1)); }
  void string(std::string_view text) {
    number(text.size());
    bytes_ += text;
  }
  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_;
};

template <class Get>
void column(Writer& out, const Timeline& timeline, Get get) {
  for (const Command& command : timeline.commands) out.number(static_cast<std::uint64_t>(get(command)));
}
/// Each from the one before.
template <class Get>
void differences(Writer& out, const Timeline& timeline, Get get) {
  std::int64_t before = 0;
  for (const Command& command : timeline.commands) {
    const auto value = static_cast<std::int64_t>(get(command));
    out.sign(value - before);
    before = value;
  }
}

std::uint32_t kind(const Command& command) {
  return static_cast<std::uint32_t>(command.lane) + 16 * static_cast<std::uint32_t>(command.state) +
         (command.pageable ? 64U : 0U);
}

void head(Writer& out, const Timeline& timeline) {
  for (const std::string_view text : {timeline.program, timeline.clock, timeline.date, timeline.note}) out.string(text);
  out.sign(timeline.duration);
  out.number(timeline.dropped);
  out.number(timeline.texts.size());
  for (const std::string& text : timeline.texts) out.string(text);
  out.number(timeline.devices.size());
  for (const Text device : timeline.devices) out.place(device);
  out.number(timeline.streams.size());
  for (const Stream& stream : timeline.streams) {
    out.place(stream.name);
    out.number(stream.id);
    out.number(stream.device);
    out.sign(stream.priority);
    out.number((stream.blocking ? 1U : 0U) + (stream.legacy ? 2U : 0U));
  }
}

void commands(Writer& out, const Timeline& timeline) {
  out.number(timeline.commands.size());
  differences(out, timeline, [](const Command& one) { return one.id; });
  column(out, timeline, [](const Command& one) { return static_cast<std::uint32_t>(one.name + 1); });
  column(out, timeline, [](const Command& one) { return static_cast<std::uint32_t>(one.file + 1); });
  differences(out, timeline, [](const Command& one) { return one.line; });
  column(out, timeline, [](const Command& one) { return one.stream; });
  column(out, timeline, [](const Command& one) { return one.thread; });
  column(out, timeline, kind);
  column(out, timeline, [](const Command& one) { return one.event; });
  column(out, timeline, [](const Command& one) { return one.elements; });
  column(out, timeline, [](const Command& one) { return one.bytes; });
  differences(out, timeline, [](const Command& one) { return one.call; });
  column(out, timeline, [](const Command& one) { return one.called < 0 ? 0 : one.called - one.call + 1; });
  for (const Command& one : timeline.commands) out.sign(one.begin - one.call);
  for (const Command& one : timeline.commands) out.sign(one.end - one.begin);
  column(out, timeline, [](const Command& one) { return one.dependency_count; });
  for (const Command& one : timeline.commands) {
    for (const Dependency& on : timeline.dependencies_of(one)) out.number(static_cast<std::uint64_t>(on.tie));
  }
  for (std::uint32_t i = 0; i < timeline.commands.size(); ++i) {
    for (const Dependency& on : timeline.dependencies_of(timeline.commands[i])) out.number(i - on.command);
  }
}

void host(Writer& out, const Timeline& timeline) {
  std::int64_t before = 0;
  out.number(timeline.waits.size());
  for (const HostWait& wait : timeline.waits) {
    out.place(wait.what);
    out.place(wait.stream);
    out.place(wait.command);
    out.place(wait.file);
    out.number(wait.line);
    out.number(wait.thread);
    out.sign(wait.begin - before);
    out.sign(wait.end - wait.begin);
    before = wait.begin;
  }
  before = 0;
  out.number(timeline.ranges.size());
  for (const NamedRange& range : timeline.ranges) {
    out.place(range.name);
    out.number(range.thread);
    out.sign(range.begin - before);
    out.number(range.end < 0 ? 0 : static_cast<std::uint64_t>(range.end - range.begin) + 1);
    before = range.begin;
  }
}

/// Parts that may be missing are there where a later one is.
bool has_arguments(const Timeline& timeline) {
  if (!timeline.node_dependencies.empty()) return true;
  return std::any_of(timeline.commands.begin(), timeline.commands.end(),
                     [](const Command& one) { return one.arguments != none; });
}
bool has_rates(const Timeline& timeline) { return !timeline.best_rates.empty() || has_arguments(timeline); }

void collectives(Writer& out, const Timeline& timeline) {
  const bool is_last = timeline.nodes.empty() && !has_rates(timeline);
  if (timeline.origin < 0 && timeline.machine.empty() && timeline.collectives.empty() && is_last) return;
  out.sign(timeline.origin);
  out.string(timeline.machine);
  out.number(timeline.collectives.size());
  std::uint32_t before = 0;
  for (const CollectivePart& part : timeline.collectives) {
    out.number(part.command - before);
    before = part.command;
    out.number(part.collective);
    out.number(part.communicator);
    out.number(static_cast<std::uint64_t>(part.rank));
    out.number(static_cast<std::uint64_t>(part.ranks));
    out.sign(part.peer);
  }
}

bool any_shared(const Timeline& timeline) {
  return std::any_of(timeline.collectives.begin(), timeline.collectives.end(),
                     [](const CollectivePart& part) { return part.shared != 0; });
}

void shared(Writer& out, const Timeline& timeline) {
  if (!any_shared(timeline) && !has_rates(timeline)) return;
  for (const CollectivePart& part : timeline.collectives) {
    out.number(part.shared);
    out.number(part.number);
  }
}

void nodes(Writer& out, const Timeline& timeline) {
  if (timeline.nodes.empty() && !any_shared(timeline) && !has_rates(timeline)) return;
  out.number(timeline.nodes.size());
  std::uint32_t before = 0;
  for (const NodeRun& run : timeline.nodes) {
    out.number(run.command - before);
    before = run.command;
    out.number(run.node);
    out.place(run.name);
    out.number(static_cast<std::uint64_t>(run.lane));
    out.place(run.file);
    out.number(run.line);
    out.sign(run.begin - timeline.commands[run.command].begin);
    out.number(static_cast<std::uint64_t>(run.end - run.begin));
  }
}

void best_rates(Writer& out, const Timeline& timeline) {
  if (!has_rates(timeline)) return;
  out.number(timeline.best_rates.size());
  for (const BestRates& one : timeline.best_rates) {
    out.number(one.copy_in);
    out.number(one.copy_out);
    out.place(one.source);
  }
}

void arguments(Writer& out, const Timeline& timeline) {
  if (!has_arguments(timeline)) return;
  column(out, timeline, [](const Command& one) { return static_cast<std::uint32_t>(one.arguments + 1); });
}

void behind_nodes(Writer& out, const Timeline& timeline) {
  if (timeline.node_dependencies.empty()) return;
  for (const NodeRun& run : timeline.nodes) {
    out.number(run.dependency_count);
    for (const std::uint32_t on : timeline.dependencies_of(run)) out.number(on);
  }
}

/// Quickly: pages are written while the program runs.
std::string deflated(const std::string& bytes) {
  z_stream stream = {};
  if (deflateInit(&stream, 1) != Z_OK) throw std::bad_alloc();
  std::string packed;
  char piece[1 << 16];
  std::size_t at = 0;
  int state = Z_OK;
  while (state != Z_STREAM_END) {
    if (stream.avail_in == 0) {
      const std::size_t size = std::min<std::size_t>(bytes.size() - at, 1U << 30);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + at));
      stream.avail_in = static_cast<uInt>(size);
      at += size;
    }
    stream.next_out = reinterpret_cast<Bytef*>(piece);
    stream.avail_out = sizeof piece;
    state = deflate(&stream, at == bytes.size() ? Z_FINISH : Z_NO_FLUSH);
    packed.append(piece, sizeof piece - stream.avail_out);
  }
  deflateEnd(&stream);
  return packed;
}

std::string base64(std::string_view bytes) {
  static constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    const char four[] = {digits[three >> 18], digits[three >> 12 & 63], digits[three >> 6 & 63], digits[three & 63]};
    text.append(four, 4);
  }
  const std::size_t missing = (3 - bytes.size() % 3) % 3;
  text.replace(text.size() - missing, missing, missing, '=');
  return text;
}

}  // namespace

std::string to_columns(const Timeline& timeline, std::span<const std::uint32_t> critical_path) {
  Writer out;
  out.bytes().reserve(timeline.commands.size() * 32);
  head(out, timeline);
  commands(out, timeline);
  host(out, timeline);
  out.number(critical_path.size());
  std::int64_t before = 0;
  for (const std::uint32_t place : critical_path) {
    out.sign(place - before);
    before = place;
  }
  collectives(out, timeline);
  nodes(out, timeline);
  shared(out, timeline);
  best_rates(out, timeline);
  arguments(out, timeline);
  behind_nodes(out, timeline);
  return base64(deflated(out.bytes()));
}

}  // namespace weir::trace
