// Findings as text for people.
#include <algorithm>
#include <string>

#include <weir/check.hpp>

#include "json/text.hpp"

namespace weir {

std::string_view to_text(FindingKind kind) {
  static constexpr const char* names[finding_kind_count] = {"use_before_alloc",
                                                            "use_after_free",
                                                            "free_before_alloc",
                                                            "read_after_write",
                                                            "write_after_write",
                                                            "write_after_read",
                                                            "misuse",
                                                            "deadlock",
                                                            "uninitialised_read",
                                                            "overlapping_arguments",
                                                            "leak",
                                                            "redundant_wait",
                                                            "empty_wait"};
  return names[static_cast<std::size_t>(kind)];
}
std::string_view to_text(Severity severity) {
  return severity == Severity::error ? "error" : severity == Severity::warning ? "warning" : "hint";
}
std::string_view to_text(HostOrder order) { return order == HostOrder::observed ? "observed" : "declared"; }

namespace {

std::string place(const std::string& file, std::uint32_t line) {
  return json::shown(file) + ":" + std::to_string(line);
}

std::string described(const Side& side) {
  if (side.op == "alloc" && !side.name.empty()) return "made by " + json::shown(side.name) + ", then filled";
  std::string text = side.op;
  for (char& c : text) c = c == '_' ? ' ' : c;
  if (side.op == "fill" && !side.name.empty()) {
    text = "filled by " + side.name;
  } else if (!side.name.empty())
    text += " " + side.name;
  if (!side.node.empty()) text += " (node " + side.node + " of the launch " + side.command + ")";
  if (!side.access.empty()) text += " (use " + std::to_string(side.use) + ", " + side.access + ")";
  if (side.host) text += " by the host";
  return json::shown(text);
}

std::string stream_of(const Side& side) {
  return side.stream.empty() ? "" : "  stream \"" + json::shown(side.stream) + "\"";
}

/// In columns as wide as those of the other side.
void add_side(std::string& text, const char* label, const Side& side, std::size_t width, std::size_t stream_width) {
  text += std::string("  ") + label + "  ";
  std::string what = described(side);
  if (!side.stream.empty()) {
    what.resize(std::max(width, what.size()), ' ');
    what += stream_of(side);
    what.resize(std::max(width + stream_width, what.size()), ' ');
  }
  if (!side.thread_name.empty()) what += "  thread \"" + json::shown(side.thread_name) + "\"";
  text += what + "  " + place(side.file, side.line) + "\n";
}

std::string times(std::uint64_t count) { return count == 1 ? "once" : std::to_string(count) + " times"; }

std::string counted(std::uint64_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

std::string to_text(const Finding& finding) {
  std::string text = finding.severity == Severity::error     ? "hazard: "
                     : finding.severity == Severity::warning ? "warning: "
                                                             : "hint: ";
  text += to_text(finding.kind);
  for (std::size_t i = 0; i < finding.also.size(); ++i) {
    text += (i == 0 ? ", also " : ", ") + std::string(to_text(finding.also[i]));
  }
  if (finding.buffer) {
    text += ", of \"" + json::shown(finding.buffer->name) + "\"";
    if (!finding.bytes.empty()) {
      text += ": bytes ";
      const std::size_t shown = std::min<std::size_t>(finding.bytes.size(), 4);
      for (std::size_t i = 0; i < shown; ++i) {
        text += (i == 0 ? "[" : ", [") + std::to_string(finding.bytes[i].first) + ", " +
                std::to_string(finding.bytes[i].second) + ")";
      }
      if (shown < finding.bytes.size()) text += ", ... " + std::to_string(finding.bytes_total) + " in all,";
      text += " of " + std::to_string(finding.buffer->bytes);
    }
  }
  text += "\n";
  std::size_t width = 0, stream_width = 0;
  for (const FindingPart<Side>* side : {&finding.second, &finding.first}) {
    if (!*side) continue;
    width = std::max(width, described(**side).size());
    stream_width = std::max(stream_width, stream_of(**side).size());
  }
  if (finding.second) add_side(text, "second", *finding.second, width, stream_width);
  if (finding.first) add_side(text, "first ", *finding.first, width, stream_width);
  if (!finding.why.empty()) text += "  why     " + json::shown(finding.why) + "\n";
  if (!finding.what.empty()) text += "  what    " + json::shown(finding.what) + "\n";
  if (finding.mend) {
    for (std::size_t i = 0; i < finding.mend->code.size(); ++i) {
      const Mend::Line& line = finding.mend->code[i];
      text += (i == 0 ? "  mend    " : "          ") + std::string(line.before ? "before " : "after ") +
              place(line.file, line.line) + " add    " + json::shown(line.text);
      const bool last = i + 1 == finding.mend->code.size();
      text += last && finding.mend->verified ? "      proved: the finding is gone, nothing new\n" : "\n";
    }
  }
  return text + "  seen    " + times(finding.count) + "; key " + json::shown(finding.key) + "\n";
}

std::string to_text(const CheckReport& report) {
  std::string text;
  for (const Finding& finding : report.findings) text += to_text(finding) + "\n";
  return text + totals(report);
}

std::string totals(const CheckReport& report) {
  std::string text;
  for (const Unchecked& one : report.unchecked) {
    text += "not checked: " + json::shown(one.what) + ": " + json::shown(one.why) + " (" + times(one.count) + ")\n";
  }
  for (const std::string& line : report.unmatched_suppressions) {
    text += "a suppression matched nothing: " + json::shown(line) + "\n";
  }
  text += json::shown(report.program) + ": " + counted(report.commands, "command") + ", " +
          counted(report.errors, "error") + ", " + counted(report.warnings, "warning") + ", " +
          counted(report.hints, "hint");
  if (report.suppressed > 0) text += ", " + std::to_string(report.suppressed) + " suppressed";
  if (report.dropped > 0) text += ", " + std::to_string(report.dropped) + " beyond the limit";
  return text + "\n";
}

}  // namespace weir
