// JSON text, by nlohmann's library.
#include "json.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

namespace tool {

struct Writer {
  nlohmann::ordered_json operator()(const Json::Array& array) const {
    auto written = nlohmann::ordered_json::array();
    for (const Json& element : array) written.push_back(std::visit(*this, element.value_));
    return written;
  }
  nlohmann::ordered_json operator()(const Json::Object& object) const {
    auto written = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < object.names.size(); ++i)
      written[object.names[i]] = std::visit(*this, object.values[i].value_);
    return written;
  }
  template <class T>
  nlohmann::ordered_json operator()(const T& value) const {
    return value;
  }
  static std::string text(const Json& json, int indent) {
    return std::visit(Writer{}, json.value_).dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }
};

Json::Json(std::initializer_list<Json> elements) {
  const auto is_member = [](const Json& element) {
    const auto* pair = std::get_if<Array>(&element.value_);
    return pair != nullptr && pair->size() == 2 && std::holds_alternative<std::string>(pair->front().value_);
  };
  if (!std::all_of(elements.begin(), elements.end(), is_member)) {
    value_ = Array(elements);
    return;
  }
  Object& object = value_.emplace<Object>();
  for (const Json& element : elements) {
    const Array& pair = std::get<Array>(element.value_);
    object.names.push_back(std::get<std::string>(pair[0].value_));
    object.values.push_back(pair[1]);
  }
}

Json Json::array() {
  Json json;
  json.value_ = Array();
  return json;
}

Json Json::object() {
  Json json;
  json.value_ = Object();
  return json;
}

void Json::push_back(Json element) { std::get<Array>(value_).push_back(std::move(element)); }

Json& Json::operator[](std::string_view name) {
  auto& [names, values] = std::get<Object>(value_);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return values[static_cast<std::size_t>(found - names.begin())];
  names.emplace_back(name);
  return values.emplace_back();
}

std::string Json::text() const { return Writer::text(*this, 2); }
std::string Json::line() const { return Writer::text(*this, -1); }

}  // namespace tool
