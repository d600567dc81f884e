// Timelines in the trace-event format: for Perfetto and chrome://tracing, and to be read back.
//
// {"weir": {...}, "displayTimeUnit": "ns", "traceEvents": [...]}: "weir" holds all that is no event. Of the events, those of
// commands, host waits, ranges and nodes have args.w, which is what is read back: numbers with blanks between.
//   cat "command":   id name file line stream thread lane state pageable event elements bytes call called begin end, and for each
//                    dependency the command and the tie
//                    Collectives have args.c, too: collective communicator rank ranks peer, and, where other processes have
//                    ranks, the communicator's number in all of them and the collective's there
//                    Launches have args.arguments, too, where it is known
//   cat "host wait": what stream command file line thread begin end
//   cat "range":     name thread begin end
//   cat "node":      command node name lane file line begin end, and the nodes of its graph that it comes behind
// A place that is none is written as -1. "best_rates", which may be missing, has [copy_in, copy_out, source] for each device.
#include <algorithm>
#include <charconv>
#include <concepts>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <weir/trace.hpp>

#include "json/text.hpp"
#include "trace/node_rows.hpp"

namespace weir::trace {

namespace {

/// Text with numbers, a piece at a time.
class Out {
 public:
  explicit Out(std::ostream& out) : out_(out) { text_.reserve(piece + 4096); }
  Out(const Out&) = delete;
  Out& operator=(const Out&) = delete;

  Out& operator<<(std::string_view text) {
    text_ += text;
    if (text_.size() >= piece) flush();
    return *this;
  }
  template <std::integral T>
  Out& operator<<(T number) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    text_.append(digits, end);
    return *this;
  }
  /// Microseconds of nanoseconds.
  Out& micros(std::int64_t ns) {
    if (ns < 0) {
      text_ += '-';
      ns = -ns;
    }
    *this << ns / 1000;
    const auto rest = static_cast<int>(ns % 1000);
    const char digits[4] = {'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10),
                            static_cast<char>('0' + rest % 10)};
    text_.append(digits, sizeof digits);
    return *this;
  }
  /// To be called last, too: not by the destructor, as the stream may throw.
  void flush() {
    out_.write(text_.data(), static_cast<std::streamsize>(text_.size()));
    text_.clear();
  }

 private:
  static constexpr std::size_t piece = 1 << 16;
  std::ostream& out_;
  std::string text_;
};

std::int64_t place(std::uint32_t value) { return value == none ? -1 : static_cast<std::int64_t>(value); }

class Writer {
 public:
  Writer(const Timeline& timeline, std::ostream& out) : timeline_(timeline), out_(out) {
    for (const std::string& text : timeline.texts) quoted_.push_back(json::literal(text));
  }

  void all() {
    head();
    out_ << "\"displayTimeUnit\": \"ns\",\n\"traceEvents\": [\n";
    name_rows();
    for (std::size_t i = 0; i < timeline_.commands.size(); ++i) command(timeline_.commands[i]);
    for (const HostWait& wait : timeline_.waits) host_wait(wait);
    for (const NamedRange& range : timeline_.ranges) named_range(range);
    for (const NodeRun& node : timeline_.nodes) node_run(node);
    out_ << "\n]}\n";
    out_.flush();
  }

 private:
  /// Devices are processes behind that of the host; streams and host threads are their threads.
  std::uint32_t process(const Command& command) const { return timeline_.streams[command.stream].device + 2; }
  static constexpr std::uint32_t host = 1;

  std::string_view text(Text at) const { return at == none ? std::string_view("\"\"") : quoted_[at]; }

  void head() {
    json::Parts texts('['), devices('['), streams('[');
    for (const std::string& one : quoted_) texts.element(one);
    for (const Text one : timeline_.devices) devices.element(std::to_string(one));
    for (const Stream& one : timeline_.streams) {
      json::Parts stream('[');
      stream.element(std::to_string(place(one.name))).element(std::to_string(one.id));
      stream.element(std::to_string(one.device)).element(std::to_string(one.priority));
      stream.element(one.blocking ? "true" : "false").element(one.legacy ? "true" : "false");
      streams.element(stream.end());
    }
    json::Parts weir('{');
    weir.text("format", "weir.timeline").number("version", 1);
    weir.text("program", timeline_.program).text("clock", timeline_.clock).text("date", timeline_.date);
    weir.text("note", timeline_.note).number("duration", static_cast<std::uint64_t>(timeline_.duration));
    if (timeline_.origin >= 0) weir.number("origin", static_cast<std::uint64_t>(timeline_.origin));
    if (!timeline_.machine.empty()) weir.text("machine", timeline_.machine);
    weir.number("dropped", timeline_.dropped).number("commands", timeline_.commands.size());
    if (!timeline_.best_rates.empty()) {
      json::Parts rates('[');
      for (const BestRates& one : timeline_.best_rates) {
        json::Parts rate('[');
        rate.element(std::to_string(one.copy_in)).element(std::to_string(one.copy_out));
        rates.element(rate.element(std::to_string(place(one.source))).end());
      }
      weir.member("best_rates", rates.end());
    }
    weir.member("devices", devices.end()).member("streams", streams.end()).member("texts", texts.end());
    out_ << "{\"weir\": " << weir.end() << ",\n";
  }

  void name_row(const char* what, std::uint32_t pid, std::uint32_t tid, std::string_view quoted_name) {
    begin_event();
    out_ << R"({"ph": "M", "name": ")" << what << R"(", "pid": )" << pid << R"(, "tid": )" << tid
         << R"(, "args": {"name": )" << quoted_name << "}}";
  }
  void name_rows() {
    name_row("process_name", host, 0, "\"host\"");
    for (std::uint32_t i = 0; i < timeline_.devices.size(); ++i) {
      name_row("process_name", i + 2, 0, text(timeline_.devices[i]));
    }
    for (std::uint32_t i = 0; i < timeline_.streams.size(); ++i) {
      name_row("thread_name", timeline_.streams[i].device + 2, i + 1, text(timeline_.streams[i].name));
    }
  }

  void begin_event() {
    if (!first_) out_ << ",\n";
    first_ = false;
  }
  void slice(std::string_view quoted_name, const char* category, std::uint32_t pid, std::uint32_t tid,
             std::int64_t begin, std::int64_t end) {
    begin_event();
    out_ << R"({"ph": "X", "name": )" << quoted_name << R"(, "cat": ")" << category << R"(", "pid": )" << pid
         << R"(, "tid": )" << tid << R"(, "ts": )";
    out_.micros(begin) << R"(, "dur": )";
    out_.micros(end - begin) << R"(, "args": {)";
  }
  void where(Text file, std::uint32_t line) {
    if (file == none) return;
    // The file's name is a JSON string already: the line goes inside.
    const std::string_view name = text(file);
    out_ << R"("where": )" << name.substr(0, name.size() - 1) << ":" << line << R"(", )";
  }
  template <class... T>
  void numbers(T... values) {
    const char* before = "";
    ((out_ << before << values, before = " "), ...);
  }

  void command(const Command& one) {
    const auto names = one.name == none ? std::string_view() : text(one.name);
    const std::string own = one.name == none ? json::literal(to_text(one.lane)) : std::string();
    const bool ran = one.state != State::pending;
    const std::int64_t begin = ran ? one.begin : std::max<std::int64_t>(one.call, 0);
    slice(one.name == none ? own : names, "command", process(one), one.stream + 1, begin, ran ? one.end : begin);
    where(one.file, one.line);
    if (one.bytes > 0) out_ << R"("bytes": )" << one.bytes << ", ";
    if (one.arguments != none) out_ << R"("arguments": )" << text(one.arguments) << ", ";
    out_ << R"("w": ")";
    numbers(one.id, place(one.name), place(one.file), one.line, one.stream, one.thread, static_cast<unsigned>(one.lane),
            static_cast<unsigned>(one.state), static_cast<unsigned>(one.pageable), one.event, one.elements, one.bytes,
            one.call, one.called, one.begin, one.end);
    const auto dependencies = timeline_.dependencies_of(one);
    for (const Dependency& on : dependencies) out_ << " " << on.command << " " << static_cast<unsigned>(on.tie);
    if (next_part_ < timeline_.collectives.size() &&
        timeline_.collectives[next_part_].command == static_cast<std::uint32_t>(&one - timeline_.commands.data())) {
      const CollectivePart& part = timeline_.collectives[next_part_++];
      out_ << R"(", "c": ")";
      numbers(part.collective, part.communicator, part.rank, part.ranks, part.peer);
      if (part.shared != 0) out_ << " " << part.shared << " " << part.number;
    }
    out_ << "\"}}";
    for (const Dependency& on : dependencies) {
      if (on.tie != Tie::stream_order) flow(timeline_.commands[on.command], one, on.tie);
    }
  }
  /// An arrow, from the end of a command to the beginning of one that had to wait for it.
  void flow(const Command& from, const Command& to, Tie tie) {
    if (from.state != State::ran || to.state != State::ran) return;
    const auto end = [&](const char* phase, const Command& at, std::int64_t moment) {
      begin_event();
      out_ << R"({"ph": ")" << phase << R"(", "name": ")" << to_text(tie) << R"(", "cat": "dependency", "id": )"
           << flows_ << R"(, "pid": )" << process(at) << R"(, "tid": )" << at.stream + 1 << R"(, "ts": )";
      out_.micros(moment) << "}";
    };
    end("s", from, from.begin);
    end("f\", \"bp\": \"e", to, std::max(to.begin, from.end));
    ++flows_;
  }

  void host_wait(const HostWait& one) {
    slice(text(one.what), "host wait", host, one.thread, one.begin, one.end);
    where(one.file, one.line);
    out_ << R"("w": ")";
    numbers(place(one.what), place(one.stream), place(one.command), place(one.file), one.line, one.thread, one.begin,
            one.end);
    out_ << "\"}}";
  }
  void named_range(const NamedRange& one) {
    slice(text(one.name), "range", host, one.thread, one.begin,
          one.end < 0 ? std::max(one.begin, timeline_.duration) : one.end);
    out_ << R"("w": ")";
    numbers(place(one.name), one.thread, one.begin, one.end);
    out_ << "\"}}";
  }

  /// In rows behind the streams: in a row of these viewers nothing overlaps.
  void node_run(const NodeRun& one) {
    const Command& launch = timeline_.commands[one.command];
    const std::uint32_t row = node_rows_.of(launch.stream, one, [&](std::uint32_t made) {
      name_row("thread_name", process(launch), first_node_row() + made,
               json::literal(std::string(timeline_.text(timeline_.streams[launch.stream].name)) + ", nodes"));
    });
    const std::string own = one.name == none ? json::literal(to_text(one.lane)) : std::string();
    slice(one.name == none ? own : text(one.name), "node", process(launch), first_node_row() + row, one.begin, one.end);
    where(one.file, one.line);
    out_ << R"("w": ")";
    numbers(one.command, one.node, place(one.name), static_cast<unsigned>(one.lane), place(one.file), one.line,
            one.begin, one.end);
    for (const std::uint32_t on : timeline_.dependencies_of(one)) out_ << " " << on;
    out_ << "\"}}";
  }
  std::uint32_t first_node_row() const { return static_cast<std::uint32_t>(timeline_.streams.size() + 1); }

  const Timeline& timeline_;
  NodeRows node_rows_;
  Out out_;
  std::vector<std::string> quoted_;
  std::uint64_t flows_ = 0;
  std::size_t next_part_ = 0;
  bool first_ = true;
};

}  // namespace

void write_json(const Timeline& timeline, std::ostream& out) { Writer(timeline, out).all(); }

}  // namespace weir::trace
