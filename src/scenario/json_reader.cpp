// JSON, by nlohmann's library: as a stream of events, of which one element at a time becomes a value.
#include "scenario/json_reader.hpp"

#include <iterator>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace weir::scenario {

namespace {

using nlohmann::json;

constexpr std::size_t most_depth = 64;
/// Text between one event and the next: a string, a number, blanks. The library holds all of it.
constexpr std::size_t most_token = std::size_t{1} << 20;

class Reader {
 public:
  // The names and signatures are the library's.
  using number_integer_t = json::number_integer_t;
  using number_unsigned_t = json::number_unsigned_t;
  using number_float_t = json::number_float_t;
  using string_t = json::string_t;
  using binary_t = json::binary_t;

  Reader(FileInput& input, Members& members) : input_(input), members_(members) {}

  // ---- text, character by character
  bool at_end() {
    if (next_ == text_.size()) {
      text_ = input_.next();
      next_ = 0;
    }
    return text_.empty();
  }
  char character() const { return text_[next_]; }
  void advance() {
    ++next_;
    if (++since_event_ > most_token) fail("something in it is longer than 1 MiB");
  }

  // ---- events
  bool null() { return put({}); }
  bool boolean(bool truth) {
    Value value;
    value.kind = Value::Kind::boolean;
    value.truth = truth;
    return put(std::move(value));
  }
  bool number_integer(number_integer_t number) {
    Value value;
    value.kind = Value::Kind::negative;
    value.real = static_cast<double>(number);
    return put(std::move(value));
  }
  bool number_unsigned(number_unsigned_t number) {
    Value value;
    value.kind = Value::Kind::integer;
    value.whole = number;
    value.real = static_cast<double>(number);
    return put(std::move(value));
  }
  bool number_float(number_float_t number, const string_t&) {
    Value value;
    value.kind = Value::Kind::real;
    value.real = number;
    return put(std::move(value));
  }
  bool string(string_t& text) {
    Value value;
    value.kind = Value::Kind::string;
    value.text = std::move(text);
    return put(std::move(value));
  }
  bool binary(binary_t&) { return false; }
  bool start_object(std::size_t) { return open(Value::Kind::object); }
  bool start_array(std::size_t) { return open(Value::Kind::array); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(string_t& name) {
    since_event_ = 0;
    Frame& frame = frames_.back();
    frame.key = name;
    if (skipped_ > 0) return true;
    frame.ignored = name.rfind("x-", 0) == 0 && (frames_.size() > 1 || !members_.is_list(name));
    if (frame.ignored) return true;
    if (frames_.size() == 1) {
      for (const std::string& seen : members_seen_) {
        if (seen == name) fail("it is there twice");
      }
      if (members_seen_.size() == 64) fail("there are too many members");
      members_seen_.push_back(name);
      return true;
    }
    Value& object = frame.value;
    if (object.find(name) != nullptr) fail("it is there twice");
    if (object.keys.size() == 64) fail("there are too many members");
    take(name.capacity() + sizeof(std::string));
    object.keys.push_back(name);
    return true;
  }

  template <class Exception>
  bool parse_error(std::size_t position, const std::string&, const Exception& error) {
    std::string what = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while ..."
    const auto head = what.find("] ");
    if (head != std::string::npos) what.erase(0, head + 2);
    if (what.size() > 240) what = "no JSON at byte " + std::to_string(position);
    for (char& c : what) {
      if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
    }
    fail(what);
  }

 private:
  struct Frame {
    bool array;
    bool ignored = false;   ///< the member that is being read
    bool elements = false;  ///< a list whose elements go out one by one
    std::string key;
    std::size_t index = 0;
    Value value;
  };

  /// The member or element that is being read.
  std::string path() const {
    std::string path;
    for (const Frame& frame : frames_) {
      if (frame.array) {
        path += "[" + std::to_string(frame.index) + "]";
      } else if (!frame.key.empty()) {
        if (!path.empty()) path += '.';
        path += frame.key.size() <= 64 ? frame.key : frame.key.substr(0, 64) + "...";
      }
    }
    return path;
  }
  [[noreturn]] void fail(std::string message) const { throw Fault{path(), std::move(message)}; }

  void take(std::size_t bytes) {
    taken_ += bytes;
    if (taken_ > members_.room()) fail("reading it would take more memory than allowed");
  }

  bool ignoring() const { return skipped_ > 0 || (!frames_.empty() && frames_.back().ignored); }

  bool open(Value::Kind kind) {
    since_event_ = 0;
    if (frames_.size() + skipped_ >= most_depth) fail("it is nested deeper than 64 times");
    if (ignoring()) {
      ++skipped_;
      return true;
    }
    if (frames_.empty() && kind == Value::Kind::array) fail("it must be an object");
    const bool elements = frames_.size() == 1 && kind == Value::Kind::array && members_.is_list(frames_.front().key);
    if (elements) members_.list_begins(frames_.front().key);
    Frame frame{kind == Value::Kind::array, false, elements, {}, 0, {}};
    frame.value.kind = kind;
    frames_.push_back(std::move(frame));
    return true;
  }
  bool close() {
    since_event_ = 0;
    if (skipped_ > 0) {
      if (--skipped_ == 0) pass();
      return true;
    }
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    if (frame.elements) {
      members_.list_ends(frames_.front().key);
      return true;
    }
    return frames_.empty() || put(std::move(frame.value));
  }
  bool put(Value value) {
    since_event_ = 0;
    if (skipped_ > 0) return true;
    if (frames_.empty()) fail("it must be an object");
    Frame& frame = frames_.back();
    if (!frame.ignored) {
      take(value.bytes());
      if (frame.elements) {
        taken_ = 0;
        members_.element(frames_.front().key, frame.index, std::move(value));
      } else if (frames_.size() == 1) {
        taken_ = 0;
        members_.member(frame.key, std::move(value));
      } else {
        frame.value.items.push_back(std::move(value));
      }
    }
    pass();
    return true;
  }
  /// On to the next element.
  void pass() {
    if (frames_.back().array) ++frames_.back().index;
  }

  FileInput& input_;
  Members& members_;
  std::string_view text_;
  std::size_t next_ = 0;
  std::size_t since_event_ = 0;
  std::size_t taken_ = 0;
  std::size_t skipped_ = 0;  ///< containers that nobody wants
  std::vector<Frame> frames_;
  std::vector<std::string> members_seen_;
};

/// The text as the library takes it.
class Characters {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  explicit Characters(Reader* reader) : reader_(reader) {}
  char operator*() const { return reader_->character(); }
  Characters& operator++() {
    reader_->advance();
    return *this;
  }
  Characters operator++(int) {
    const Characters before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const Characters& a, const Characters& b) { return a.ended() == b.ended(); }
  friend bool operator!=(const Characters& a, const Characters& b) { return !(a == b); }

 private:
  bool ended() const { return reader_ == nullptr || reader_->at_end(); }
  Reader* reader_;
};

}  // namespace

void read_json(FileInput& input, Members& members) {
  Reader reader(input, members);
  json::sax_parse(Characters(&reader), Characters(nullptr), &reader);
}

}  // namespace weir::scenario
