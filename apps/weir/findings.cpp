// Reads "weir.findings", version 1.
#include "findings.hpp"

#include <cstddef>
#include <fstream>
#include <stdexcept>
#include <string_view>

#include <nlohmann/json.hpp>

namespace tool {

namespace {

using nlohmann::json;

/// The value that `to_text` calls so.
template <class Value>
Value value_of(const json& text, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (weir::to_text(static_cast<Value>(i)) == text.get<std::string>()) return static_cast<Value>(i);
  }
  throw std::runtime_error("findings of another version: " + text.dump());
}

std::string text_or_empty(const json& value) { return value.is_null() ? std::string() : value.get<std::string>(); }

weir::FindingPart<weir::Side> side_of(const json& from) {
  if (from.is_null()) return {};
  weir::Side side;
  side.command = from.at("command");
  side.node = text_or_empty(from.at("node"));
  side.op = from.at("op");
  side.name = from.at("name");
  side.stream = from.at("stream");
  side.device = from.at("device");
  side.thread_name = from.value("thread_name", "");
  side.file = from.at("file");
  side.access = from.at("access");
  side.line = from.at("line");
  side.thread = from.at("thread");
  side.use = from.at("use");
  side.host = from.at("host");
  return side;
}

weir::FindingPart<weir::FindingBuffer> buffer_of(const json& from) {
  if (from.is_null()) return {};
  weir::FindingBuffer buffer;
  buffer.name = from.at("name");
  buffer.id = from.at("id");
  buffer.bytes = from.at("bytes");
  buffer.file = from.at("file");
  buffer.line = from.at("line");
  return buffer;
}

/// Of programs: the code alone says it.
weir::FindingPart<weir::Mend> mend_of(const json& from) {
  if (from.is_null()) return {};
  weir::Mend mend;
  mend.verified = from.at("verified");
  for (const json& line : from.at("code"))
    mend.code.push_back({line.at("where") == "before", line.at("file"), line.at("line"), line.at("text")});
  return mend;
}

weir::Finding finding_of(const json& from) {
  weir::Finding finding;
  finding.kind = value_of<weir::FindingKind>(from.at("kind"), weir::finding_kind_count);
  for (const json& kind : from.at("also"))
    finding.also.push_back(value_of<weir::FindingKind>(kind, weir::finding_kind_count));
  finding.severity = value_of<weir::Severity>(from.at("severity"), 3);
  finding.count = from.at("count");
  finding.key = from.at("key");
  finding.first = side_of(from.at("first"));
  finding.second = side_of(from.at("second"));
  finding.buffer = buffer_of(from.at("buffer"));
  finding.bytes = from.at("bytes").get<decltype(finding.bytes)>();
  finding.bytes_total = from.at("bytes_total");
  finding.why = from.at("why");
  finding.mend = mend_of(from.at("mend"));
  return finding;
}

}  // namespace

std::optional<weir::CheckReport> read_findings(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || file.peek() == std::ifstream::traits_type::eof()) return std::nullopt;
  const json from = json::parse(file);
  weir::CheckReport report;
  report.program = from.at("program");
  report.device = from.at("device");
  report.host_order = value_of<weir::HostOrder>(from.at("host_order"), 2);
  report.program_exit = from.at("program_exit");
  for (const json& finding : from.at("findings")) report.findings.push_back(finding_of(finding));
  for (const json& one : from.at("unchecked"))
    report.unchecked.push_back({one.at("what"), one.at("why"), one.at("count")});
  report.unmatched_suppressions = from.at("unmatched_suppressions").get<std::vector<std::string>>();
  const json& summary = from.at("summary");
  report.commands = summary.at("commands");
  report.errors = summary.at("errors");
  report.warnings = summary.at("warnings");
  report.hints = summary.at("hints");
  report.suppressed = summary.at("suppressed");
  report.dropped = summary.at("dropped");
  return report;
}

}  // namespace tool
