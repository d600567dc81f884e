// What members of a scenario file may be: types, ranges and names.
#include "scenario/value.hpp"

#include <algorithm>
#include <limits>

namespace weir::scenario {

namespace {

const char* what(const Value& value) {
  switch (value.kind) {
    case Value::Kind::null: return "null";
    case Value::Kind::boolean: return "true or false";
    case Value::Kind::string: return "a string";
    case Value::Kind::array: return "an array";
    case Value::Kind::object: return "an object";
    default: return "a number";
  }
}

bool is_number(const Value& value) {
  return value.kind == Value::Kind::integer || value.kind == Value::Kind::negative || value.kind == Value::Kind::real;
}

}  // namespace

std::string shown(std::string_view text) {
  constexpr std::size_t most = 64;
  if (text.size() <= most) return "\"" + std::string(text) + "\"";
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return "\"" + std::string(text.substr(0, end)) + "...\"";
}

std::string At::path() const {
  std::string path = up_ != nullptr ? up_->path() : std::string();
  if (!key_.empty()) {
    if (!path.empty()) path += '.';
    // Names of unknown members may be anything.
    path += key_.size() <= 64 ? std::string(key_) : std::string(key_.substr(0, 64)) + "...";
  }
  if (index_ != no_index) path += "[" + std::to_string(index_) + "]";
  return path;
}

void At::fault_at(std::string_view key, std::string message) const {
  const Value* found = value_.find(key);
  static const Value nothing;
  At(found != nullptr ? *found : nothing, this, key, no_index).fault(std::move(message));
}

At At::member(std::string_view key) const {
  const Value* found = value_.find(key);
  if (found == nullptr) fault_at(key, "it is missing");
  return At(*found, this, key, no_index);
}

void At::only(std::initializer_list<std::string_view> members) const {
  if (value_.kind != Value::Kind::object) fault(std::string("it must be an object, and is ") + what(value_));
  for (const std::string& key : value_.keys) {
    if (std::find(members.begin(), members.end(), key) == members.end()) {
      fault_at(key, "there is no member of this name here");
    }
  }
}

void At::is_array() const {
  if (value_.kind != Value::Kind::array) fault(std::string("it must be an array, and is ") + what(value_));
}

const std::string& At::string() const {
  if (value_.kind != Value::Kind::string) fault(std::string("it must be a string, and is ") + what(value_));
  if (value_.text.find('\0') != std::string::npos) fault("it holds a character 0");
  return value_.text;
}

const std::string& At::name() const {
  const std::string& text = string();
  const auto fits = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view("_.+#:-").find(c) != std::string_view::npos;
  };
  if (text.empty() || text.size() > 64 || !std::all_of(text.begin(), text.end(), fits)) {
    fault(shown(text) + " is no name: 1 to 64 of A-Z a-z 0-9 _ . + # : -");
  }
  return text;
}

bool At::boolean() const {
  if (value_.kind != Value::Kind::boolean) fault(std::string("it must be true or false, and is ") + what(value_));
  return value_.truth;
}

std::uint64_t At::count() const {
  // What offsets and sizes can be at all, so that differences of them are numbers, too.
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (value_.kind == Value::Kind::integer) {
    if (value_.whole > most) fault("it is more than 9223372036854775807");
    return value_.whole;
  }
  if (!is_number(value_)) fault(std::string("it must be a whole number, and is ") + what(value_));
  if (value_.real < 0) fault("it is less than 0");
  constexpr double exact = 9007199254740992.0;  // above, not every whole number is one
  if (value_.real > exact || value_.real != static_cast<double>(static_cast<std::uint64_t>(value_.real))) {
    fault("it must be a whole number");
  }
  return static_cast<std::uint64_t>(value_.real);
}

double At::duration() const {
  if (!is_number(value_)) fault(std::string("it must be a number, and is ") + what(value_));
  if (!(value_.real >= 0)) fault("it is less than 0");
  return value_.real;
}

std::size_t At::one_of(std::initializer_list<std::string_view> words) const {
  const std::string& text = string();
  const auto found = std::find(words.begin(), words.end(), text);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  std::string all;
  for (const std::string_view word : words) all += (all.empty() ? "" : ", ") + std::string(word);
  fault(shown(text) + " is none of " + all);
}

}  // namespace weir::scenario
