#include "predict/profile_file.hpp"

#include <set>

#include <weir/error.hpp>
#include <weir/sim.hpp>

#include "scenario/file_input.hpp"
#include "scenario/json_reader.hpp"
#include "scenario/value.hpp"

namespace weir::predict {

namespace {

using scenario::At;
using scenario::Fault;
using scenario::Value;
using sim::model::Field;
using sim::model::Profile;

/// Fields without a group are in "device".
constexpr std::string_view no_group = "device";

class ProfileReader : public scenario::Members {
 public:
  bool is_list(std::string_view) const override { return false; }
  void list_begins(std::string_view) override {}
  void element(std::string_view, std::size_t, Value) override {}
  void list_ends(std::string_view) override {}
  std::size_t room() const override { return std::size_t{1} << 20; }

  void member(std::string_view name, Value value) override {
    const At at(value, name);
    if (!seen_.insert(std::string(name)).second) at.fault("it is there twice");
    if (name == "format") {
      if (at.string() != "weir.sim_profile") at.fault("it is \"weir.sim_profile\"");
    } else if (name == "version") {
      if (at.count() != 1) at.fault("this version of Weir reads 1");
    } else if (name == "name") {
      profile_.name = at.name();
    } else if (name == "about") {
      static_cast<void>(at.string());
    } else {
      group(at, name);
    }
  }

  Profile finish() {
    for (const char* name : {"format", "version", "name"}) {
      if (seen_.count(name) == 0) throw Fault{name, "it is missing"};
    }
    for (const Field& field : sim::model::fields()) {
      if (seen_.count(path_of(field)) == 0) throw Fault{path_of(field), "it is missing"};
    }
    return profile_;
  }

 private:
  static std::string path_of(const Field& field) {
    const std::string name(field.name);
    return field.name.find('.') == std::string_view::npos ? std::string(no_group) + "." + name : name;
  }

  void group(const At& at, std::string_view name) {
    bool known = false;
    for (const Field& field : sim::model::fields())
      known = known || path_of(field).starts_with(std::string(name) + ".");
    if (!known) at.fault("there is no such member");
    if (at.value().kind != Value::Kind::object) at.fault("it is an object of fields");
    for (std::size_t i = 0; i < at.value().keys.size(); ++i) {
      const std::string& key = at.value().keys[i];
      const Field* field = sim::model::find_field(name == no_group ? key : std::string(name) + "." + key);
      if (!field) at.fault_at(key, "there is no such field");
      const At entry = at.member(key);
      entry.only({"value", "unit", "source", "spread"});
      const At unit = entry.member("unit");
      if (unit.string() != field->unit) unit.fault("it is \"" + std::string(field->unit) + "\"");
      static_cast<void>(entry.member("source").string());
      const At value = entry.member("value");
      const double number = number_in(value);
      if (entry.has("spread")) spread(entry.member("spread"));
      const std::string refused = sim::model::refusal(*field, number);
      if (!refused.empty()) value.fault(refused);
      field->of(profile_) = number;
      seen_.insert(path_of(*field));
    }
  }

  static double number_in(const At& at) {
    const Value::Kind kind = at.value().kind;
    if (kind != Value::Kind::integer && kind != Value::Kind::negative && kind != Value::Kind::real)
      at.fault("it is a number");
    return at.value().real;
  }
  static void spread(const At& at) {
    at.is_array();
    if (at.size() != 2) at.fault("it is the least and the greatest value");
    if (number_in(at.item(0)) > number_in(at.item(1))) at.fault("the least value comes first");
  }

  Profile profile_;
  std::set<std::string> seen_;
};

Profile read(scenario::FileInput& input) {
  try {
    ProfileReader reader;
    scenario::read_json(input, reader);
    return reader.finish();
  } catch (const Fault& fault) {
    throw(fault.path.empty() ? "" : fault.path + ": ") + fault.message;
  }
}

}  // namespace

Profile parse_profile(std::string_view text) {
  scenario::FileInput input(text);
  return read(input);
}

Profile load_profile(const std::string& name) {
  for (std::size_t i = 0; i < embedded_count; ++i) {
    if (embedded_profiles[i].name == name) return parse_profile(embedded_profiles[i].text);
  }
  if (!name.ends_with(".json")) {
    std::string names;
    for (const std::string& one : sim::profile_names()) names += (names.empty() ? "" : ", ") + one;
    throw "there is no profile \"" + name + "\": there are " + names + ", and files whose names end in .json";
  }
  try {
    scenario::FileInput input{std::filesystem::path(name)};
    return read(input);
  } catch (const scenario::Unreadable& unreadable) {
    throw "it cannot be read: " + unreadable.message;
  }
}

}  // namespace weir::predict

namespace weir::sim {

std::vector<std::string> profile_names() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < predict::embedded_count; ++i) names.emplace_back(predict::embedded_profiles[i].name);
  return names;
}

std::string_view profile_text(std::string_view name) {
  for (std::size_t i = 0; i < predict::embedded_count; ++i) {
    if (predict::embedded_profiles[i].name == name) return predict::embedded_profiles[i].text;
  }
  throw Error(Errc::unknown_device, "weir::sim::profile_text", std::string(name), "there is no such profile",
              SourceLocation());
}

}  // namespace weir::sim
