// Timelines that were written as pages.
#include "trace_files/page.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <zlib.h>

#include "scenario/value.hpp"

namespace weir::trace {

namespace {

using scenario::Fault;

constexpr std::int64_t most_moment = std::int64_t{1} << 53;
constexpr std::int64_t most_sum = std::int64_t{1} << 62;

std::string bytes_of_base64(std::string_view text) {
  static constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::uint8_t values[256];
  std::fill(std::begin(values), std::end(values), std::uint8_t{255});
  for (std::size_t i = 0; i < digits.size(); ++i)
    values[static_cast<unsigned char>(digits[i])] = static_cast<std::uint8_t>(i);
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 3);
  std::uint32_t held = 0;
  unsigned bits = 0;
  for (const char c : text) {
    const std::uint8_t value = values[static_cast<unsigned char>(c)];
    if (value > 63) throw Fault{"data", "it is no base64"};
    held = (held << 6 | value) & 0xffffff;
    bits += 6;
    if (bits >= 8) bytes.push_back(static_cast<char>(held >> (bits -= 8)));
  }
  if ((held & ((1U << bits) - 1)) != 0) throw Fault{"data", "it is no base64"};
  return bytes;
}

std::string inflated(std::string_view packed, std::size_t limit) {
  z_stream stream = {};
  if (inflateInit(&stream) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  constexpr std::size_t piece = std::size_t{1} << 16;
  const auto out = std::make_unique<char[]>(piece);
  std::string bytes;
  int state = Z_OK;
  while (state != Z_STREAM_END) {
    if (stream.avail_in == 0) {
      const std::string_view next = packed.substr(0, std::size_t{1} << 30);
      packed.remove_prefix(next.size());
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(next.data()));
      stream.avail_in = static_cast<uInt>(next.size());
      if (next.empty()) throw Fault{"data", "it ends too early"};
    }
    stream.next_out = reinterpret_cast<Bytef*>(out.get());
    stream.avail_out = piece;
    state = inflate(&stream, Z_NO_FLUSH);
    if (state != Z_OK && state != Z_STREAM_END) throw Fault{"data", "it is damaged"};
    bytes.append(out.get(), piece - stream.avail_out);
    if (bytes.size() > limit) throw Fault{"data", "it takes more than the limit of memory"};
  }
  if (stream.avail_in != 0 || !packed.empty()) throw Fault{"data", "it is damaged"};  // it goes on behind its end
  return bytes;
}

/// The numbers of the columns; what is out of its range is a fault of `part`.
class Numbers {
 public:
  explicit Numbers(std::string_view bytes) : rest_(bytes) {}

  const char* part = "head";

  [[noreturn]] void fault(const char* message) const { throw Fault{part, message}; }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) fault("the data ends too early");
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    fault("a number is too large");
  }
  std::int64_t sign() {
    const std::uint64_t value = number();
    return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
  }
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t value = number();
    if (value >= bound) fault("a number is out of its range");
    return value;
  }
  std::uint32_t small() { return static_cast<std::uint32_t>(below(std::uint64_t{1} << 32)); }
  /// A place in a list of that size, or none.
  std::uint32_t place(std::size_t size) { return static_cast<std::uint32_t>(below(size + 1)) - 1; }
  std::int64_t moment(std::int64_t since) {
    std::int64_t value = 0;
    if (__builtin_add_overflow(since, sign(), &value) || value < -most_moment || value > most_moment) {
      fault("a moment is out of its range");
    }
    return value;
  }
  /// How many elements follow: each takes a byte at least.
  std::size_t count() {
    const std::uint64_t value = number();
    if (value > rest_.size()) fault("the data ends too early");
    return value;
  }
  bool at_end() const { return rest_.empty(); }
  std::string string() {
    const std::size_t size = count();
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }

 private:
  std::string_view rest_;
};

class Reader {
 public:
  Reader(std::string_view bytes, std::size_t limit) : in_(bytes), limit_(limit) {}

  Timeline all() {
    head();
    commands();
    dependencies();
    host();
    path();
    if (!in_.at_end()) collectives();
    if (!in_.at_end()) nodes();
    if (!in_.at_end()) shared();
    if (!in_.at_end()) best_rates();
    if (!in_.at_end()) arguments();
    if (!in_.at_end()) behind_nodes();
    return std::move(made_);
  }

 private:
  void head() {
    for (std::string* text : {&made_.program, &made_.clock, &made_.date, &made_.note}) *text = in_.string();
    made_.duration = in_.moment(0);
    if (made_.duration < 0) in_.fault("the duration is below zero");
    made_.dropped = in_.number();
    in_.part = "texts";
    for (std::size_t i = take(in_.count(), sizeof(std::string)); i > 0; --i) made_.texts.push_back(in_.string());
    in_.part = "devices";
    for (std::size_t i = in_.count(); i > 0; --i) made_.devices.push_back(in_.place(made_.texts.size()));
    in_.part = "streams";
    for (std::size_t i = take(in_.count(), sizeof(Stream)); i > 0; --i) {
      Stream stream;
      stream.name = in_.place(made_.texts.size());
      stream.id = in_.number();
      stream.device = static_cast<std::uint32_t>(in_.below(made_.devices.size()));
      stream.priority = static_cast<std::int32_t>(std::clamp<std::int64_t>(in_.sign(), -1000000, 1000000));
      const std::uint64_t flags = in_.below(4);
      stream.blocking = (flags & 1) != 0;
      stream.legacy = (flags & 2) != 0;
      made_.streams.push_back(stream);
    }
  }

  /// Calls what reads the number of one command, for all of them.
  template <class Read>
  void column(Read read) {
    for (Command& command : made_.commands) read(command);
  }
  void commands() {
    in_.part = "commands";
    made_.commands.resize(take(in_.count(), sizeof(Command)));
    const std::size_t texts = made_.texts.size();
    std::uint64_t id = 0;
    column([&](Command& one) { one.id = id += static_cast<std::uint64_t>(in_.sign()); });
    column([&](Command& one) { one.name = in_.place(texts); });
    column([&](Command& one) { one.file = in_.place(texts); });
    std::uint64_t line = 0;
    column([&](Command& one) {
      line += static_cast<std::uint64_t>(in_.sign());
      if (line > std::numeric_limits<std::uint32_t>::max()) in_.fault("a line is out of its range");
      one.line = static_cast<std::uint32_t>(line);
    });
    column([&](Command& one) { one.stream = static_cast<std::uint32_t>(in_.below(made_.streams.size())); });
    column([&](Command& one) { one.thread = in_.small(); });
    column([&](Command& one) { kind(one); });
    column([&](Command& one) { one.event = in_.small(); });
    column([&](Command& one) { one.elements = in_.number(); });
    column([&](Command& one) { one.bytes = in_.number(); });
    std::int64_t call = 0;
    column([&](Command& one) {
      one.call = call = in_.moment(call);
      if (call < -1) in_.fault("a call is before the beginning");
    });
    column([&](Command& one) {
      const auto since = static_cast<std::int64_t>(in_.below(static_cast<std::uint64_t>(most_moment)));
      one.called = since == 0 ? -1 : one.call + since - 1;
    });
    column([&](Command& one) { one.begin = in_.moment(one.call); });
    column([&](Command& one) {
      one.end = in_.moment(one.begin);
      if (one.end < one.begin) in_.fault("one ends before it begins");
      if (one.state == State::pending && one.end != 0) in_.fault("one is pending, and has ended");
      add_up(one.end - std::min(one.call, one.begin));
    });
  }
  void kind(Command& one) {
    const std::uint64_t kind = in_.below(128);
    if (kind % 16 >= lane_count || kind / 16 % 4 > 2) in_.fault("a kind is out of its range");
    one.lane = static_cast<Lane>(kind % 16);
    one.state = static_cast<State>(kind / 16 % 4);
    one.pageable = kind >= 64;
  }

  void dependencies() {
    in_.part = "dependencies";
    std::uint64_t count = 0;
    column([&](Command& one) {
      one.first_dependency = static_cast<std::uint32_t>(count);
      one.dependency_count = in_.small();
      if ((count += one.dependency_count) >= none) in_.fault("there are too many");
    });
    take(count, sizeof(Dependency));
    for (std::uint64_t i = 0; i < count; ++i) made_.dependencies.push_back({0, static_cast<Tie>(in_.below(tie_count))});
    for (std::uint32_t i = 0; i < made_.commands.size(); ++i) {
      const Command& one = made_.commands[i];
      for (std::uint32_t d = 0; d < one.dependency_count; ++d) {
        const auto back = static_cast<std::uint32_t>(in_.below(std::uint64_t{i} + 1));
        if (back == 0) in_.fault("one leads to a later command");
        made_.dependencies[one.first_dependency + d].command = i - back;
      }
    }
  }

  void host() {
    in_.part = "waits";
    std::int64_t before = 0;
    for (std::size_t i = take(in_.count(), sizeof(HostWait)); i > 0; --i) {
      HostWait wait;
      wait.what = in_.place(made_.texts.size());
      wait.stream = in_.place(made_.streams.size());
      wait.command = in_.place(made_.commands.size());
      wait.file = in_.place(made_.texts.size());
      wait.line = in_.small();
      wait.thread = in_.small();
      wait.begin = before = in_.moment(before);
      wait.end = in_.moment(before);
      if (wait.end < wait.begin) in_.fault("one ends before it begins");
      add_up(wait.end - wait.begin);
      made_.waits.push_back(wait);
    }
    in_.part = "ranges";
    before = 0;
    for (std::size_t i = take(in_.count(), sizeof(NamedRange)); i > 0; --i) {
      NamedRange range;
      range.name = in_.place(made_.texts.size());
      range.thread = in_.small();
      range.begin = before = in_.moment(before);
      const auto time = static_cast<std::int64_t>(in_.below(static_cast<std::uint64_t>(most_moment)));
      range.end = time == 0 ? -1 : range.begin + time - 1;
      made_.ranges.push_back(range);
    }
  }

  /// It is made of the commands again where it is wanted.
  void path() {
    in_.part = "critical path";
    for (std::size_t i = in_.count(); i > 0; --i) in_.sign();
  }
  void collectives() {
    in_.part = "collectives";
    made_.origin = in_.sign();
    if (made_.origin < -1 || made_.origin >> 62 != 0) made_.origin = -1;
    made_.machine = in_.string();
    constexpr std::uint64_t most_ranks = 1 << 30;
    std::uint64_t command = 0;
    for (std::size_t i = take(in_.count(), sizeof(CollectivePart)); i > 0; --i) {
      command += in_.number();
      if (command >= made_.commands.size()) in_.fault("one is of no command");
      CollectivePart part{static_cast<std::uint32_t>(command), in_.small(), in_.small(), 0, 0, -1};
      part.rank = static_cast<std::int32_t>(in_.below(most_ranks));
      part.ranks = static_cast<std::int32_t>(in_.below(most_ranks));
      const std::int64_t peer = in_.sign();
      if (peer < -1 || peer >= static_cast<std::int64_t>(most_ranks)) in_.fault("a number is out of its range");
      part.peer = static_cast<std::int32_t>(peer);
      made_.collectives.push_back(part);
    }
  }

  void shared() {
    in_.part = "collectives";
    for (CollectivePart& part : made_.collectives) {
      part.shared = in_.below(static_cast<std::uint64_t>(most_moment));
      part.number = in_.number();
    }
  }

  void best_rates() {
    in_.part = "best rates";
    const std::uint64_t count = in_.number();
    if (count != 0 && count != made_.devices.size()) in_.fault("there must be one for each device");
    for (std::uint64_t i = 0; i < count; ++i) {
      BestRates one;
      one.copy_in = in_.below(static_cast<std::uint64_t>(most_moment));
      one.copy_out = in_.below(static_cast<std::uint64_t>(most_moment));
      one.source = in_.place(made_.texts.size());
      made_.best_rates.push_back(one);
    }
  }

  void arguments() {
    in_.part = "arguments";
    column([&](Command& one) { one.arguments = in_.place(made_.texts.size()); });
  }

  void behind_nodes() {
    in_.part = "nodes";
    for (NodeRun& run : made_.nodes) {
      run.first_dependency = static_cast<std::uint32_t>(made_.node_dependencies.size());
      run.dependency_count = static_cast<std::uint32_t>(take(in_.count(), sizeof(std::uint32_t)));
      for (std::uint32_t i = 0; i < run.dependency_count; ++i) made_.node_dependencies.push_back(in_.small());
    }
  }

  void nodes() {
    in_.part = "nodes";
    std::uint64_t command = 0;
    for (std::size_t i = take(in_.count(), sizeof(NodeRun)); i > 0; --i) {
      command += in_.number();
      if (command >= made_.commands.size()) in_.fault("one is of no command");
      NodeRun run{static_cast<std::uint32_t>(command), in_.small()};
      run.name = in_.place(made_.texts.size());
      run.lane = static_cast<Lane>(in_.below(lane_count));
      run.file = in_.place(made_.texts.size());
      run.line = in_.small();
      run.begin = in_.moment(made_.commands[run.command].begin);
      const auto time = static_cast<std::int64_t>(in_.below(static_cast<std::uint64_t>(most_moment)));
      run.end = run.begin + time;
      add_up(time);
      made_.nodes.push_back(run);
    }
  }

  std::size_t take(std::uint64_t count, std::size_t size) {
    if (count > (limit_ - taken_) / size) in_.fault("they take more than the limit of memory");
    taken_ += count * size;
    return count;
  }
  void add_up(std::int64_t ns) {
    if (ns > most_sum - sum_) in_.fault("all together last too long");
    sum_ += ns;
  }

  Numbers in_;
  const std::size_t limit_;
  std::size_t taken_ = 0;
  std::int64_t sum_ = 0;
  Timeline made_;
};

}  // namespace

Timeline read_page(std::string_view page, std::size_t limit) {
  constexpr std::string_view mark = "id=\"timeline\" data-version=\"";
  const std::size_t at = page.find(mark);
  if (at == page.npos) throw Fault{"data", "it is missing: this is no timeline of Weir's"};
  page.remove_prefix(at + mark.size());
  constexpr std::string_view version = "1\">";
  if (page.substr(0, version.size()) != version) throw Fault{"data-version", "this library reads version 1"};
  page.remove_prefix(version.size());
  const std::size_t end = page.find('<');
  if (end == page.npos) throw Fault{"data", "it ends too early"};
  const std::string bytes = inflated(bytes_of_base64(page.substr(0, end)), limit);
  return Reader(bytes, limit).all();
}

}  // namespace weir::trace
