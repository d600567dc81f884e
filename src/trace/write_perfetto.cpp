// Timelines in Perfetto's own format, which is protobuf: a handful of its messages, by their published field numbers
// (protos/perfetto/trace/trace_packet.proto and track_event/*.proto).
#include <algorithm>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "trace/node_rows.hpp"
#include "trace/words.hpp"

namespace weir::trace {

namespace {

class Message {
 public:
  Message& number(unsigned field, std::uint64_t value) {
    key(field, 0);
    varint(value);
    return *this;
  }
  Message& fixed(unsigned field, std::uint64_t value) {
    key(field, 1);
    for (int byte = 0; byte < 8; ++byte) bytes_ += static_cast<char>(value >> (8 * byte) & 0xff);
    return *this;
  }
  Message& text(unsigned field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(unsigned field, const Message& inner) { return text(field, inner.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void key(unsigned field, unsigned type) { varint(field << 3 | type); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7f) | 0x80);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

// The fields that are written.
constexpr unsigned trace_packet = 1;
namespace packet {
constexpr unsigned timestamp = 8, sequence = 10, event = 11, track = 60;
}
namespace track {
constexpr unsigned uuid = 1, name = 2, parent = 5;
}
namespace event {
constexpr unsigned annotation = 4, type = 9, track = 11, category = 22, name = 23, flow = 47, last_of_flow = 48;
constexpr std::uint64_t begins = 1, ends = 2, instant = 3;
}  // namespace event
namespace annotation {
constexpr unsigned number = 3, text = 6, name = 10;
}

class Writer {
 public:
  Writer(const Timeline& timeline, std::ostream& out) : timeline_(timeline), out_(out) {}

  void all() {
    add_recording();
    add_tracks();
    for (std::uint32_t i = 0; i < timeline_.commands.size(); ++i) count_flows(i);
    for (std::uint32_t i = 0; i < timeline_.commands.size(); ++i) add_command(i);
    for (const HostWait& wait : timeline_.waits) {
      Message begin = named(timeline_.text(wait.what), "host wait", thread_track(wait.thread));
      annotate(begin, "where", place_text(timeline_, wait.file, wait.line));
      slice(begin, thread_track(wait.thread), wait.begin, wait.end);
    }
    for (const NamedRange& range : timeline_.ranges) {
      const std::uint64_t track = thread_track(range.thread);
      slice(named(timeline_.text(range.name), "range", track), track, range.begin,
            range.end < 0 ? std::max(range.begin, timeline_.duration) : range.end);
    }
    for (const NodeRun& node : timeline_.nodes) add_node(node);
  }

 private:
  static constexpr std::uint64_t devices = 1, streams = std::uint64_t{1} << 32, threads = std::uint64_t{2} << 32,
                                 nodes = std::uint64_t{3} << 32, recording = std::uint64_t{4} << 32;
  static std::uint64_t thread_track(std::uint32_t thread) { return threads + thread; }
  std::uint64_t stream_track(const Command& command) const { return streams + command.stream; }

  void write(Message made) {
    made.number(packet::sequence, 1);
    Message trace;
    trace.message(trace_packet, made);
    out_.write(trace.bytes().data(), static_cast<std::streamsize>(trace.bytes().size()));
  }
  void add_track(std::uint64_t id, std::string_view name, std::uint64_t parent) {
    Message made;
    made.number(track::uuid, id).text(track::name, name);
    if (parent != 0) made.number(track::parent, parent);
    write(Message().message(packet::track, made));
  }
  /// What the other formats have at their head. It is also why a recording of nothing is a file that opens.
  void add_recording() {
    add_track(recording, "recording", 0);
    Message made;
    made.number(event::type, event::instant).number(event::track, recording);
    made.text(event::category, "recording").text(event::name, "recording");
    annotate(made, "program", timeline_.program);
    annotate(made, "date", timeline_.date);
    annotate(made, "clock", timeline_.clock);
    annotate(made, "note", timeline_.note);
    write(Message().number(packet::timestamp, 0).message(packet::event, made));
  }
  void add_tracks() {
    for (std::uint32_t i = 0; i < timeline_.devices.size(); ++i) {
      add_track(devices + i, timeline_.text(timeline_.devices[i]), 0);
    }
    for (std::uint32_t i = 0; i < timeline_.streams.size(); ++i) {
      const Stream& stream = timeline_.streams[i];
      add_track(streams + i, timeline_.text(stream.name), devices + stream.device);
    }
    std::vector<std::uint32_t> hosts;
    for (const HostWait& wait : timeline_.waits) hosts.push_back(wait.thread);
    for (const NamedRange& range : timeline_.ranges) hosts.push_back(range.thread);
    std::sort(hosts.begin(), hosts.end());
    hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
    for (const std::uint32_t host : hosts) add_track(thread_track(host), "host thread " + std::to_string(host), 0);
  }

  static Message named(std::string_view name, std::string_view category, std::uint64_t track) {
    Message made;
    made.number(event::type, event::begins).number(event::track, track);
    return made.text(event::category, category).text(event::name, name);
  }
  static void annotate(Message& made, std::string_view name, std::string_view value) {
    if (value.empty()) return;
    made.message(event::annotation, Message().text(annotation::name, name).text(annotation::text, value));
  }
  void slice(const Message& begin, std::uint64_t track, std::int64_t from, std::int64_t to) {
    write(Message().number(packet::timestamp, moment(from)).message(packet::event, begin));
    Message end;
    end.number(event::type, event::ends).number(event::track, track);
    write(Message().number(packet::timestamp, moment(to)).message(packet::event, end));
  }
  static std::uint64_t moment(std::int64_t ns) { return static_cast<std::uint64_t>(std::max<std::int64_t>(ns, 0)); }

  /// Dependencies that are drawn have numbers from 1 on; those of a command that others depend on are known before it is written.
  void count_flows(std::uint32_t place) {
    if (starts_.empty()) starts_.resize(timeline_.commands.size());
    for (const Dependency& on : timeline_.dependencies_of(timeline_.commands[place])) {
      if (on.tie != Tie::stream_order) starts_[on.command].push_back(++flows_);
    }
  }
  void add_command(std::uint32_t place) {
    const Command& command = timeline_.commands[place];
    const std::uint64_t track = stream_track(command);
    Message begin = named(timeline_.name_of(command), to_text(command.lane), track);
    annotate(begin, "where", place_text(timeline_, command.file, command.line));
    if (command.bytes > 0) {
      begin.message(event::annotation,
                    Message().text(annotation::name, "bytes").number(annotation::number, command.bytes));
    }
    annotate(begin, "arguments", timeline_.text(command.arguments));
    for (const std::uint64_t flow : starts_[place]) begin.fixed(event::flow, flow);
    for (const Dependency& on : timeline_.dependencies_of(command)) {
      if (on.tie != Tie::stream_order) begin.fixed(event::last_of_flow, ++ended_);
    }
    const bool pending = command.state == State::pending;
    slice(begin, track, pending ? command.call : command.begin, pending ? command.call : command.end);
  }

  void add_node(const NodeRun& node) {
    const std::uint32_t stream = timeline_.commands[node.command].stream;
    const std::uint64_t track = nodes + node_rows_.of(stream, node, [&](std::uint32_t made) {
      add_track(nodes + made, std::string(timeline_.text(timeline_.streams[stream].name)) + ", nodes",
                devices + timeline_.streams[stream].device);
    });
    Message begin = named(timeline_.name_of(node), to_text(node.lane), track);
    annotate(begin, "where", place_text(timeline_, node.file, node.line));
    slice(begin, track, node.begin, node.end);
  }

  const Timeline& timeline_;
  NodeRows node_rows_;
  std::ostream& out_;
  std::vector<std::vector<std::uint64_t>> starts_;  ///< flows that begin at each command
  std::uint64_t flows_ = 0;
  std::uint64_t ended_ = 0;
};

}  // namespace

void write_perfetto(const Timeline& timeline, std::ostream& out) { Writer(timeline, out).all(); }

}  // namespace weir::trace
