// The table and the JSON of a run.
#include "report.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <tuple>

#include <nlohmann/json.hpp>

#include "proof.hpp"

namespace bench {

namespace {

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}
std::string range(const Spread& figures) {
  return number(figures.median) + " [" + number(figures.low) + " to " + number(figures.high) + "]";
}
/// As the table shows it.
double rounded(double value) { return std::strtod(number(value).c_str(), nullptr); }

using Cells = std::array<std::string, 9>;

Cells cells_of(const Row& row) {
  if (row.skipped) return {row.name, row.work, "-", row.unit, "-", "-", row.reach_text(), "skipped", row.note};
  const std::optional<double> ratio = row.ratio();
  return {row.name,
          row.work,
          number(row.value.median),
          row.unit,
          row.raw ? number(row.raw->median) : "-",
          ratio ? number(*ratio) + "x" : "-",
          row.reach_text(),
          row.verdict(),
          row.wrong.empty() ? row.note : row.wrong};
}

}  // namespace

std::string Bound::text() const {
  const std::string sign = at_least ? ">= " : "<= ";
  return of == Of::ratio ? sign + number(limit) + "x" : sign + number(limit) + (unit.empty() ? "" : " " + unit);
}

std::optional<double> Row::ratio() const {
  if (!raw || raw->median == 0) return std::nullopt;
  return value.median / raw->median;
}

std::string Row::reach_text() const {
  std::string text;
  for (const Bound& bound : reach) text += (text.empty() ? "" : " and ") + bound.text();
  return text.empty() ? "-" : text;
}

bool Row::ok() const {
  return wrong.empty() && std::all_of(reach.begin(), reach.end(), [this](const Bound& bound) {
           const std::optional<double> figure = bound.of == Bound::Of::ratio ? ratio() : value.median;
           return figure && bound.holds(*figure);
         });
}

std::string Row::verdict() const {
  if (!wrong.empty()) return "WRONG";
  if (reach.empty()) return disturbed() ? "disturbed" : "-";
  return std::string(ok() ? (disturbed() ? "reached" : "ok") : "MISSED") + (disturbed() ? ", disturbed" : "");
}

void Report::add(Row row) {
  row.wrong = take_complaint();
  row.others = disturbance_.cores();
  out_ << row.name << ": " << row.work << ": " << range(row.value) << ' ' << row.unit;
  if (row.raw) out_ << ", raw " << range(*row.raw) << ", ratio " << number(row.ratio().value_or(0));
  if (row.disturbed()) out_ << " (others took " << number(row.others) << " cores meanwhile)";
  if (!row.wrong.empty()) out_ << " WRONG: " << row.wrong;
  out_ << std::endl;
  rows_.push_back(std::move(row));
  disturbance_ = Disturbance();
}

void Report::fail(const std::string& name, const std::string& why) {
  failures_.push_back(name + " could not run: " + why);
  out_ << failures_.back() << std::endl;
}

void Report::skip(Row row, const std::string& why) {
  out_ << row.name << ": " << row.work << ": skipped: " << why << std::endl;
  row.note = why;
  row.skipped = true;
  rows_.push_back(std::move(row));
}

bool Report::all_reached() const {
  return std::all_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.skipped || row.ok(); });
}

bool Report::all_proved() const {
  return all_ran() && std::all_of(rows_.begin(), rows_.end(),
                                  [](const Row& row) { return !row.skipped && row.ok() && !row.disturbed(); });
}

bool Report::all_wrong() const {
  bool all = all_ran();
  for (const Row& row : rows_) {
    if (row.skipped || !row.wrong.empty()) continue;
    out_ << row.name << " does not notice that nothing was done\n";
    all = false;
  }
  return all;
}

void Report::print_table() const {
  std::vector<Cells> lines = {{"name", "work", "value", "unit", "raw", "ratio", "reach", "ok", "note"}};
  for (const Row& row : rows_) lines.push_back(cells_of(row));
  std::array<std::size_t, std::tuple_size_v<Cells>> width{};
  for (const Cells& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) width[c] = std::max(width[c], line[c].size());
  }
  out_ << '\n';
  for (const Cells& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) {
      const std::string padding(width[c] - line[c].size(), ' ');
      const bool right = c == 2 || c == 4 || c == 5;
      out_ << (right ? padding + line[c] : line[c] + padding) << (c + 1 == line.size() ? "\n" : "  ");
    }
  }
  for (const std::string& failure : failures_) out_ << failure << '\n';
}

void Report::write_json(std::ostream& file) const {
  file << "[\n";
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    const std::optional<double> ratio = row.ratio();
    nlohmann::ordered_json json = {{"name", row.name}, {"value", nullptr}, {"unit", row.unit}, {"raw", nullptr},
                                   {"ratio", nullptr}, {"reach", nullptr}, {"ok", nullptr}};
    if (!row.skipped) json["value"] = rounded(row.value.median);
    if (row.raw) json["raw"] = rounded(row.raw->median);
    if (ratio) json["ratio"] = rounded(*ratio);
    if (!row.reach.empty()) json["reach"] = row.reach_text();
    if (!row.skipped) json["ok"] = row.ok();
    if (!row.wrong.empty()) json["wrong"] = row.wrong;
    if (!row.skipped) json["others"] = rounded(row.others);
    if (row.disturbed()) json["disturbed"] = true;
    if (cores_ != 0) json.update({{"cores", cores_}, {"hand_over_us", rounded(hand_over_)}});
    if (!row.note.empty()) json["note"] = row.note;
    file << "  " << json.dump() << (i + 1 == rows_.size() ? "\n" : ",\n");
  }
  file << "]\n";
}

void Report::write_json(const std::string& path) const {
  std::ofstream file(path);
  write_json(file);
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

}  // namespace bench
