#include "backends/sim/profile_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include <weir/error.hpp>
#include <weir/sim.hpp>

#include "backends/sim/flat_json.hpp"

namespace weir::sim {

namespace {

using model::Field;
using model::Profile;

/// Fields without a group are in "device".
constexpr std::string_view no_group = "device";
constexpr std::size_t most_bytes = std::size_t{1} << 20;

std::string path_of(const Field& field) {
  const std::string name(field.name);
  return field.name.find('.') == std::string_view::npos ? std::string(no_group) + "." + name : name;
}

[[noreturn]] void fault(std::string_view path, std::string_view message) {
  throw std::string(path) + ": " + std::string(message);
}

class ProfileReader {
 public:
  void take(const Leaf& leaf) {
    const std::size_t dot = leaf.path.find('.');
    if (dot != std::string_view::npos) return field(leaf, leaf.path.substr(0, dot), leaf.path.substr(dot + 1));
    if (leaf.is_empty && is_group(leaf.path)) return;  // its fields are missing
    seen_.emplace(leaf.path, 0);
    if (leaf.path == "format") {
      if (leaf.text != "weir.sim_profile") fault(leaf.path, "it is \"weir.sim_profile\"");
    } else if (leaf.path == "version") {
      if (leaf.number != 1) fault(leaf.path, "this version of Weir reads 1");
    } else if (leaf.path == "name") {
      if (!leaf.is_text || leaf.text.empty()) fault(leaf.path, "it is a name");
      profile_.name = leaf.text;
    } else if (leaf.path == "about") {
      if (!leaf.is_text) fault(leaf.path, "it is a text");
    } else {
      fault(leaf.path, is_group(leaf.path) ? "it is an object of fields" : "there is no such member");
    }
  }

  Profile finish() {
    for (const char* name : {"format", "version", "name", "about"}) {
      if (seen_.count(name) == 0) fault(name, "it is missing");
    }
    for (const Field& field : model::fields()) {
      const std::string path = path_of(field);
      const auto found = seen_.find(path);
      if (found == seen_.end()) fault(path, "it is missing");
      for (const unsigned part : {value, unit, source}) {
        if ((found->second & part) == 0) fault(path + "." + name_of(part), "it is missing");
      }
    }
    for (const auto& [path, spread] : spreads_) {
      if (spread.size() != 2) fault(path + ".spread", "it is the least and the greatest value");
      if (spread[0] > spread[1]) fault(path + ".spread", "the least value comes first");
    }
    return profile_;
  }

 private:
  enum Part : unsigned { value = 1, unit = 2, source = 4 };
  static const char* name_of(unsigned part) { return part == value ? "value" : part == unit ? "unit" : "source"; }

  static bool is_group(std::string_view name) {
    for (const Field& field : model::fields()) {
      if (path_of(field).starts_with(std::string(name) + ".")) return true;
    }
    return false;
  }

  void field(const Leaf& leaf, std::string_view group, std::string_view rest) {
    if (!is_group(group)) fault(group, "there is no such member");
    const std::size_t dot = rest.find('.');
    const std::string name(rest.substr(0, dot));
    const std::string path = std::string(group) + "." + name;
    const Field* field = model::find_field(group == no_group ? name : path);
    if (field == nullptr || path_of(*field) != path) fault(path, "there is no such field");
    if (dot == std::string_view::npos) fault(path, "it is an object of value, unit, source and spread");
    const std::string_view part = rest.substr(dot + 1);
    unsigned& seen = seen_[path];
    if (part == "value") {
      seen |= value;
      if (!leaf.is_number) fault(leaf.path, "it is a number");
      const std::string refused = model::refusal(*field, leaf.number);
      if (!refused.empty()) fault(leaf.path, refused);
      field->of(profile_) = leaf.number;
    } else if (part == "unit") {
      seen |= unit;
      if (leaf.text != field->unit) fault(leaf.path, "it is \"" + std::string(field->unit) + "\"");
    } else if (part == "source") {
      seen |= source;
      if (!leaf.is_text || leaf.text.empty()) fault(leaf.path, "it is a text, which says where the value is from");
    } else if (part == "spread" || part.starts_with("spread.")) {
      if (part != "spread.0" && part != "spread.1") fault(path + ".spread", "it is the least and the greatest value");
      if (!leaf.is_number) fault(leaf.path, "it is a number");
      spreads_[path].push_back(leaf.number);
    } else {
      fault(leaf.path, "there is no such member");
    }
  }

  Profile profile_;
  std::map<std::string, unsigned, std::less<>> seen_;  ///< of a field, which of its parts
  std::map<std::string, std::vector<double>> spreads_;
};

const Embedded* find_embedded(std::string_view name) {
  for (std::size_t i = 0; i < embedded_count; ++i) {
    if (embedded_profiles[i].name == name) return &embedded_profiles[i];
  }
  return nullptr;
}

}  // namespace

Profile parse_profile(std::string_view text) {
  ProfileReader reader;
  read_flat_json(text, [&](const Leaf& leaf) { reader.take(leaf); });
  return reader.finish();
}

Profile load_profile(const std::string& name) {
  if (const Embedded* found = find_embedded(name)) return parse_profile(found->text);
  if (!name.ends_with(".json")) {
    std::string names;
    for (const std::string& one : profile_names()) names += (names.empty() ? "" : ", ") + one;
    throw "there is no profile \"" + name + "\": there are " + names + ", and files whose names end in .json";
  }
  if (name.find('\0') != std::string::npos) throw std::string("the name of a file holds no character 0");
  std::ifstream file(name, std::ios::binary);
  std::string text(most_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.gcount() == 0)
    throw std::string("it cannot be read: ") + (file.is_open() ? "it is empty" : std::strerror(errno));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > most_bytes) throw std::string("a profile takes no more than 1 MiB");
  return parse_profile(text);
}

std::vector<std::string> profile_names() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < embedded_count; ++i) names.emplace_back(embedded_profiles[i].name);
  return names;
}

std::string_view profile_text(std::string_view name) {
  if (const Embedded* found = find_embedded(name)) return found->text;
  throw Error(Errc::unknown_device, "weir::sim::profile_text", std::string(name), "there is no such profile",
              SourceLocation());
}

}  // namespace weir::sim
