// The profile that is made, and its file.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <weir/sim.hpp>

#include "calibrate.hpp"
#include "json.hpp"
#include "measure.hpp"

namespace tool {

namespace {

/// What the device says of itself.
bool is_property(const CardField& field) {
  for (const char* name : {"memory_bytes", "compute_capability", "sms", "resident_kernels", "copy_engines"}) {
    if (field.full_name() == name) return true;
  }
  return false;
}

/// Those that a profile may have: where noise hid what was looked for, differences are anything. A time that is lost in it is 0.
Times values_of(const CardField& field, const std::vector<Fields>& rounds) {
  Times values;
  for (const Fields& round : rounds) {
    const auto found = round.find(field.full_name());
    if (found == round.end() || !std::isfinite(found->second)) continue;
    if (field.unit == "GB/s" && (found->second < 1e-3 || found->second > 1e6)) continue;
    values.add(field.unit == "us" ? std::max(0.0, found->second) : found->second);
  }
  return values;
}

}  // namespace

std::vector<CardField> card_of(const std::vector<Fields>& rounds, const std::string& device) {
  std::vector<CardField> card;
  const auto shipped = nlohmann::ordered_json::parse(weir::sim::profile_text("h200"));
  for (const auto& [group, fields] : shipped.items()) {
    if (!fields.is_object()) continue;
    for (const auto& [name, value] : fields.items()) {
      CardField field{group, name, value["unit"], {}};
      field.shipped = field.value = value["value"];
      const Times values = values_of(field, rounds);
      field.measured = !values.none();
      if (field.measured) {
        // Of a count, one that was seen.
        field.value = field.unit == "count" ? std::floor(values.median()) : values.median();
        field.least = values.least();
        field.greatest = values.greatest();
        field.source = (is_property(field) ? "property of " : "weir calibrate ") + device;
      } else {
        field.source = fmt::format("not measured, as in h200: {}", value["source"].get<std::string>());
      }
      card.push_back(std::move(field));
    }
  }
  return card;
}

std::string card_text(const std::vector<CardField>& card, const std::string& name, const std::string& about) {
  const auto quoted = [](const std::string& text) { return Json(text).line(); };
  std::string text = fmt::format("{{\n \"format\": \"weir.sim_profile\", \"version\": 1, \"name\": {},\n \"about\": {}",
                                 quoted(name), quoted(about));
  std::string group;
  for (const CardField& field : card) {
    const bool fresh = field.group != group;
    if (fresh) text += fmt::format("{},\n {}: {{", group.empty() ? "" : "}", quoted(field.group));
    group = field.group;
    const auto number = [&](double value) {
      return field.unit == "bytes" ? fmt::format("{:.0f}", value) : fmt::format("{:.6g}", value);
    };
    text += fmt::format("{}\n  {}: {{\"value\": {}, \"unit\": {}, \"source\": {}", fresh ? "" : ",", quoted(field.name),
                        number(field.value), quoted(field.unit), quoted(field.source));
    if (field.measured && field.least < field.greatest)
      text += fmt::format(", \"spread\": [{}, {}]", number(field.least), number(field.greatest));
    text += "}";
  }
  return text + "}\n}\n";
}

WholeFile::WholeFile(const std::string& path) : path_(path), written_(path) {
  // What is no plain file, as /dev/stdout, cannot be replaced.
  std::error_code ignored;
  const auto kind = std::filesystem::status(path, ignored).type();
  const bool plain = kind == std::filesystem::file_type::not_found || kind == std::filesystem::file_type::regular;
  if (plain) written_ += fmt::format(".part{}", getpid());
  file_ = std::fopen(written_.c_str(), "wb");
  if (file_ == nullptr)
    throw std::runtime_error(fmt::format("{}: it cannot be written: {}", path, std::strerror(errno)));
}

WholeFile::~WholeFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  if (written_ != path_) std::remove(written_.c_str());
}

void WholeFile::finish(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), file_) == text.size() && std::fflush(file_) == 0;
  if (!written || (written_ != path_ && std::rename(written_.c_str(), path_.c_str()) != 0))
    throw std::runtime_error(fmt::format("{}: it cannot be written: {}", path_, std::strerror(errno)));
  std::fclose(file_);
  file_ = nullptr;
}

}  // namespace tool
