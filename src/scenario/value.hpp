// A part of a scenario file as it was read, and where in the file it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace weir::scenario {

/// What is wrong with a file, and with which member of it.
struct Fault {
  std::string path;
  std::string message;
};

struct Value {
  enum class Kind : std::uint8_t { null, boolean, integer, negative, real, string, array, object };

  Kind kind = Kind::null;
  bool truth = false;
  std::uint64_t whole = 0;  ///< integer
  double real = 0;          ///< of every number
  std::string text;
  std::vector<std::string> keys;  ///< of an object, one for each item
  std::vector<Value> items;

  /// What it takes in memory, without its items; twice, for lists double as they grow.
  std::size_t bytes() const { return 2 * sizeof(Value) + text.capacity(); }
  const Value* find(std::string_view key) const {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (keys[i] == key) return &items[i];
    }
    return nullptr;
  }
};

/// A value with the way to it, which errors name. Lives on the stack of who reads.
class At {
 public:
  /// A member of the file itself, or an element of one.
  At(const Value& value, std::string_view key, std::size_t index = no_index)
      : value_(value), key_(key), index_(index) {}

  const Value& value() const { return value_; }
  std::size_t size() const { return value_.items.size(); }
  At item(std::size_t i) const { return At(value_.items[i], this, {}, i); }
  bool has(std::string_view key) const { return value_.find(key) != nullptr; }
  /// Faults if there is none.
  At member(std::string_view key) const;
  /// Faults if it is no object, and for members of other names.
  void only(std::initializer_list<std::string_view> members) const;
  void is_array() const;

  const std::string& string() const;
  /// Faults unless it matches the format's pattern of names.
  const std::string& name() const;
  bool boolean() const;
  std::uint64_t count() const;
  double duration() const;
  /// The place among the words.
  std::size_t one_of(std::initializer_list<std::string_view> words) const;

  [[noreturn]] void fault(std::string message) const { throw Fault{path(), std::move(message)}; }
  [[noreturn]] void fault_at(std::string_view key, std::string message) const;
  std::string path() const;

 private:
  static constexpr std::size_t no_index = static_cast<std::size_t>(-1);
  At(const Value& value, const At* up, std::string_view key, std::size_t index)
      : value_(value), up_(up), key_(key), index_(index) {}

  const Value& value_;
  const At* up_ = nullptr;
  std::string_view key_;
  std::size_t index_;
};

/// Text of the file as messages show it: short.
std::string shown(std::string_view text);

}  // namespace weir::scenario
