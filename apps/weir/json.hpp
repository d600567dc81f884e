// JSON values that the tool prints. json.cpp alone knows the library that writes them.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tool {

/// Null, a truth value, a number, a string, an array, or an object whose members keep the order in which they came.
class Json {
 public:
  using Array = std::vector<Json>;
  struct Object {
    std::vector<std::string> names;
    std::vector<Json> values;  ///< one for each name
  };

  Json() = default;
  Json(bool value) : value_(value) {}
  template <std::integral T>
  Json(T value) {
    if constexpr (std::signed_integral<T>) {
      value_ = static_cast<std::int64_t>(value);
    } else {
      value_ = static_cast<std::uint64_t>(value);
    }
  }
  Json(double value) : value_(value) {}
  Json(const char* text) : value_(std::string(text)) {}
  Json(std::string_view text) : value_(std::string(text)) {}
  Json(std::string text) : value_(std::move(text)) {}
  Json(const std::vector<std::string>& texts) : value_(Array(texts.begin(), texts.end())) {}
  /// An object if each element is a list of a string and something, else an array.
  Json(std::initializer_list<Json> elements);

  static Json array();
  static Json object();

  /// To an array.
  void push_back(Json element);
  /// The member of an object, made if there is none.
  Json& operator[](std::string_view name);

  /// For people, over several lines; what is no UTF-8 is replaced.
  std::string text() const;
  /// For programs, on one line.
  std::string line() const;

 private:
  friend struct Writer;
  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> value_;
};

}  // namespace tool
