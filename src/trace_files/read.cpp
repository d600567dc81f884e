// Reading timelines that were written to files: trace/write_json.cpp has the format of JSON.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <weir/error.hpp>
#include <weir/trace.hpp>

#include "scenario/file_input.hpp"
#include "scenario/json_reader.hpp"
#include "scenario/value.hpp"
#include "trace_files/page.hpp"

namespace weir::trace {

namespace {

using scenario::At;
using scenario::Fault;
using scenario::Value;

/// Bounds of moments, and of all durations together: sums of them fit.
constexpr std::int64_t most_moment = std::int64_t{1} << 53;
constexpr std::int64_t most_sum = std::int64_t{1} << 62;
constexpr std::int32_t most_ranks = 1 << 30;
constexpr std::uint64_t most_shared = (std::uint64_t{1} << 53) - 1;

/// "1 -1 25": the numbers of one event.
class Numbers {
 public:
  explicit Numbers(const At& at) : at_(at), rest_(at.string()) {}

  bool at_end() const { return rest_.empty(); }
  template <class T>
  T next(T least, T most) {
    T value{};
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) at_.fault("a number is missing, or too large");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    if (!rest_.empty()) {
      if (rest_.front() != ' ' || rest_.size() == 1) at_.fault("numbers have one blank between");
      rest_.remove_prefix(1);
    }
    if (value < least || value > most) at_.fault("a number is out of its range");
    return value;
  }
  template <class T>
  T any() {
    return next<T>(std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
  }
  std::int64_t moment() { return next<std::int64_t>(-most_moment, most_moment); }
  /// A place in a list, or none.
  std::uint32_t place(std::size_t size) {
    const auto value = next<std::int64_t>(-1, static_cast<std::int64_t>(size) - 1);
    return value < 0 ? none : static_cast<std::uint32_t>(value);
  }
  std::uint32_t place_of_one(std::size_t size) {
    const std::uint32_t value = place(size);
    if (value == none) at_.fault("a place is missing");
    return value;
  }
  [[noreturn]] void fault(const char* message) const { at_.fault(message); }

 private:
  const At& at_;
  std::string_view rest_;
};

class Reader final : public scenario::Members {
 public:
  explicit Reader(std::size_t limit) : limit_(limit) {}

  bool is_list(std::string_view member) const override { return member == "traceEvents"; }
  void list_begins(std::string_view) override {
    if (!head_) throw Fault{"weir", "it is missing, or behind traceEvents: this is no timeline of Weir's"};
  }
  void element(std::string_view list, std::size_t index, Value value) override {
    if (value.find("cat") == nullptr) return;
    const At event(value, list, index);
    const std::string& category = event.member("cat").string();
    if (category != "command" && category != "host wait" && category != "range" && category != "node") return;
    const At args = event.member("args");
    const At w = args.member("w");
    Numbers numbers(w);
    if (category == "command") {
      add_command(numbers);
      if (args.has("arguments")) made_.commands.back().arguments = known_text(args.member("arguments"));
      if (args.has("c")) add_part(args.member("c"));
    } else if (category == "range") {
      add_range(numbers);
    } else if (category == "node") {
      add_node(numbers);
    } else {
      add_wait(numbers);
    }
    if (!numbers.at_end()) numbers.fault("there are too many numbers");
    if (bytes() > limit_) throw Fault{"traceEvents", "it takes more than the limit of memory"};
  }
  void list_ends(std::string_view) override {}
  void member(std::string_view name, Value value) override {
    if (name == "weir") read_head(At(value, name));
  }
  std::size_t room() const override { return limit_ - std::min(limit_, bytes()); }

  Timeline finish() {
    if (!head_) throw Fault{"weir", "it is missing: this is no timeline of Weir's"};
    if (made_.commands.size() != commands_) throw Fault{"weir.commands", "there are fewer or more of them"};
    for (const HostWait& wait : made_.waits) {
      if (wait.command != none && wait.command >= commands_) throw Fault{"traceEvents", "a wait is for no command"};
    }
    return std::move(made_);
  }

 private:
  std::size_t bytes() const {
    return text_bytes_ + made_.commands.size() * sizeof(Command) + made_.dependencies.size() * sizeof(Dependency) +
           made_.waits.size() * sizeof(HostWait) + made_.collectives.size() * sizeof(CollectivePart) +
           made_.node_dependencies.size() * sizeof(std::uint32_t) + made_.ranges.size() * sizeof(NamedRange) +
           made_.nodes.size() * sizeof(NodeRun);
  }
  std::uint32_t place(const At& at, std::size_t size) const {
    const std::uint64_t value = at.count();
    if (value >= size) at.fault("there are only " + std::to_string(size));
    return static_cast<std::uint32_t>(value);
  }

  void read_head(const At& weir) {
    head_ = true;
    if (weir.member("format").string() != "weir.timeline") weir.member("format").fault("it must be weir.timeline");
    if (weir.member("version").count() != 1) weir.member("version").fault("this library reads version 1");
    made_.program = weir.member("program").string();
    made_.clock = weir.member("clock").string();
    made_.date = weir.member("date").string();
    made_.note = weir.member("note").string();
    const std::uint64_t duration = weir.member("duration").count();
    if (duration > static_cast<std::uint64_t>(most_moment)) weir.member("duration").fault("it is too long");
    made_.duration = static_cast<std::int64_t>(duration);
    if (weir.has("origin")) {
      const std::uint64_t origin = weir.member("origin").count();
      if (origin >> 62 != 0) weir.member("origin").fault("it is too late");
      made_.origin = static_cast<std::int64_t>(origin);
    }
    if (weir.has("machine")) made_.machine = weir.member("machine").string();
    made_.dropped = weir.member("dropped").count();
    commands_ = weir.member("commands").count();
    const At texts = weir.member("texts"), devices = weir.member("devices"), streams = weir.member("streams");
    texts.is_array();
    for (std::size_t i = 0; i < texts.size(); ++i) {
      made_.texts.push_back(texts.item(i).string());
      text_bytes_ += sizeof(std::string) + made_.texts.back().capacity();
    }
    devices.is_array();
    for (std::size_t i = 0; i < devices.size(); ++i) {
      made_.devices.push_back(place(devices.item(i), made_.texts.size()));
    }
    streams.is_array();
    for (std::size_t i = 0; i < streams.size(); ++i) read_stream(streams.item(i));
    if (weir.has("best_rates")) read_best_rates(weir.member("best_rates"));
  }
  static std::uint64_t rate(const At& at) {
    const std::uint64_t value = at.count();
    if (value >= static_cast<std::uint64_t>(most_moment)) at.fault("it is too large");
    return value;
  }
  void read_best_rates(const At& rates) {
    rates.is_array();
    if (rates.size() != made_.devices.size()) rates.fault("there must be one for each device");
    for (std::size_t i = 0; i < rates.size(); ++i) {
      const At one = rates.item(i);
      one.is_array();
      if (one.size() != 3) one.fault("it must have three elements");
      BestRates made;
      made.copy_in = rate(one.item(0));
      made.copy_out = rate(one.item(1));
      const At source = one.item(2);
      if (source.value().real != -1) made.source = place(source, made_.texts.size());
      made_.best_rates.push_back(made);
    }
  }
  void read_stream(const At& at) {
    at.is_array();
    if (at.size() != 6) at.fault("it must have six elements");
    Stream stream;
    stream.name = place(at.item(0), made_.texts.size());
    stream.id = at.item(1).count();
    stream.device = place(at.item(2), made_.devices.size());
    const double priority = at.item(3).value().real;
    if (!(priority >= -1e6 && priority <= 1e6)) at.item(3).fault("it is out of its range");
    stream.priority = static_cast<std::int32_t>(priority);
    stream.blocking = at.item(4).boolean();
    stream.legacy = at.item(5).boolean();
    made_.streams.push_back(stream);
  }

  Text known_text(const At& at) {
    if (places_.empty()) {
      for (Text i = 0; i < made_.texts.size(); ++i) places_.emplace(made_.texts[i], i);
    }
    const auto place = places_.find(at.string());
    if (place == places_.end()) at.fault("it is none of weir.texts");
    return place->second;
  }
  void add_command(Numbers& numbers) {
    const std::size_t texts = made_.texts.size();
    Command made;
    made.id = numbers.any<std::uint64_t>();
    made.name = numbers.place(texts);
    made.file = numbers.place(texts);
    made.line = numbers.any<std::uint32_t>();
    made.stream = numbers.place_of_one(made_.streams.size());
    made.thread = numbers.any<std::uint32_t>();
    made.lane = static_cast<Lane>(numbers.place_of_one(lane_count));
    made.state = static_cast<State>(numbers.place_of_one(3));
    made.pageable = numbers.place_of_one(2) != 0;
    made.event = numbers.any<std::uint32_t>();
    made.elements = numbers.any<std::uint64_t>();
    made.bytes = numbers.any<std::uint64_t>();
    made.call = numbers.next<std::int64_t>(-1, most_moment);
    made.called = numbers.next<std::int64_t>(-1, most_moment);
    made.begin = numbers.moment();
    made.end = numbers.moment();
    if (made.end < made.begin) numbers.fault("it ends before it begins");
    if (made.state == State::pending && made.end != 0) numbers.fault("it is pending, and has ended");
    add_up(made.end - std::min(made.call, made.begin), numbers);
    made.first_dependency = static_cast<std::uint32_t>(made_.dependencies.size());
    while (!numbers.at_end()) {
      const std::uint32_t on = numbers.place_of_one(made_.commands.size());
      made_.dependencies.push_back({on, static_cast<Tie>(numbers.place_of_one(tie_count))});
      ++made.dependency_count;
    }
    made_.commands.push_back(made);
  }
  void add_part(const At& at) {
    Numbers numbers(at);
    CollectivePart part{static_cast<std::uint32_t>(made_.commands.size() - 1), 0, 0, 0, 0, -1};
    part.collective = numbers.next<std::uint32_t>(1, none);
    part.communicator = numbers.next<std::uint32_t>(1, none);
    part.rank = numbers.next<std::int32_t>(0, most_ranks);
    part.ranks = numbers.next<std::int32_t>(1, most_ranks);
    part.peer = numbers.next<std::int32_t>(-1, most_ranks);
    if (!numbers.at_end()) {
      part.shared = numbers.next<std::uint64_t>(1, most_shared);
      part.number = numbers.any<std::uint64_t>();
    }
    if (!numbers.at_end()) numbers.fault("there are too many numbers");
    made_.collectives.push_back(part);
  }
  void add_wait(Numbers& numbers) {
    HostWait made;
    made.what = numbers.place(made_.texts.size());
    made.stream = numbers.place(made_.streams.size());
    made.command = numbers.place(none);
    made.file = numbers.place(made_.texts.size());
    made.line = numbers.any<std::uint32_t>();
    made.thread = numbers.any<std::uint32_t>();
    made.begin = numbers.moment();
    made.end = numbers.moment();
    if (made.end < made.begin) numbers.fault("it ends before it begins");
    add_up(made.end - made.begin, numbers);
    made_.waits.push_back(made);
  }
  void add_range(Numbers& numbers) {
    NamedRange made;
    made.name = numbers.place(made_.texts.size());
    made.thread = numbers.any<std::uint32_t>();
    made.begin = numbers.moment();
    made.end = numbers.moment();
    if (made.end < made.begin && made.end != -1) numbers.fault("it ends before it begins");
    made_.ranges.push_back(made);
  }
  void add_node(Numbers& numbers) {
    NodeRun made{numbers.place_of_one(made_.commands.size()), numbers.any<std::uint32_t>()};
    if (!made_.nodes.empty() && made.command < made_.nodes.back().command) numbers.fault("nodes are by their commands");
    made.name = numbers.place(made_.texts.size());
    made.lane = static_cast<Lane>(numbers.place_of_one(lane_count));
    made.file = numbers.place(made_.texts.size());
    made.line = numbers.any<std::uint32_t>();
    made.begin = numbers.moment();
    made.end = numbers.moment();
    if (made.end < made.begin) numbers.fault("it ends before it begins");
    add_up(made.end - made.begin, numbers);
    made.first_dependency = static_cast<std::uint32_t>(made_.node_dependencies.size());
    for (; !numbers.at_end(); ++made.dependency_count) {
      made_.node_dependencies.push_back(numbers.any<std::uint32_t>());
    }
    made_.nodes.push_back(made);
  }
  void add_up(std::int64_t ns, const Numbers& numbers) {
    if (ns > most_sum - sum_) numbers.fault("all together last too long");
    sum_ += ns;
  }

  const std::size_t limit_;
  Timeline made_;
  std::unordered_map<std::string, Text> places_;  ///< of texts, where one was asked for
  bool head_ = false;
  std::uint64_t commands_ = 0;
  std::size_t text_bytes_ = 0;
  std::int64_t sum_ = 0;
};

Timeline page_of(scenario::FileInput& input, std::size_t limit) {
  std::string page;
  for (std::string_view piece = input.next(); !piece.empty(); piece = input.next()) {
    if (piece.size() > limit - page.size()) throw Fault{"", "it takes more than the limit of memory"};
    page += piece;
  }
  return read_page(page, limit);
}

Timeline read(scenario::FileInput& input, const std::string& name, bool is_page, const ReadOptions& options,
              SourceLocation where) {
  try {
    if (is_page) return page_of(input, options.limit);
    Reader reader(options.limit);
    scenario::read_json(input, reader);
    return reader.finish();
  } catch (const Fault& fault) {
    throw Error(Errc::invalid_value, "weir::trace::load", name,
                fault.path.empty() ? fault.message : fault.path + ": " + fault.message, where);
  }
}

}  // namespace

Timeline load(const std::filesystem::path& path, const ReadOptions& options, SourceLocation where) {
  if (path.extension() == ".pftrace") {
    throw Error(Errc::invalid_value, "weir::trace::load", path.string(),
                "Perfetto's format is not read back: record .json or .html", where);
  }
  try {
    scenario::FileInput input(path);
    return read(input, path.string(), path.extension() == ".html", options, where);
  } catch (const scenario::Unreadable& unreadable) {
    throw Error(Errc::invalid_value, "weir::trace::load", path.string(), "it cannot be read: " + unreadable.message,
                where);
  }
}

Timeline parse_json(std::string_view text, const std::string& name, const ReadOptions& options, SourceLocation where) {
  scenario::FileInput input(text);
  return read(input, name, false, options, where);
}

}  // namespace weir::trace
