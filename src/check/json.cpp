// Reports as JSON: "weir.findings", version 1.
#include <cstdio>
#include <string>

#include <weir/check.hpp>

namespace weir {

namespace {

/// How many bytes of well-formed UTF-8 stand at `at`; 0 if none do.
std::size_t character(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(at), second = byte(at + 1);
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return continues(at + 1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool fits = (first != 0xe0 || second >= 0xa0) && (first != 0xed || second < 0xa0);
    return fits && continues(at + 1) && continues(at + 2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool fits = (first != 0xf0 || second >= 0x90) && (first != 0xf4 || second < 0x90);
    return fits && continues(at + 1) && continues(at + 2) && continues(at + 3) ? 4 : 0;
  }
  return 0;
}

std::string text_json(std::string_view text) {
  std::string made = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = character(text, i);
    const char c = text[i];
    if (length == 0) {
      made += "\xef\xbf\xbd";
      ++i;
      continue;
    }
    if (c == '"' || c == '\\') {
      made += '\\';
      made += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      made += code;
    } else {
      made.append(text.substr(i, length));
    }
    i += length;
  }
  return made + "\"";
}

/// An object or a list that is being written.
class Parts {
 public:
  explicit Parts(char open) : text_(1, open), close_(open == '{' ? '}' : ']') {}
  Parts& member(const char* name, const std::string& json) {
    separate();
    text_ += text_json(name) + ": " + json;
    return *this;
  }
  Parts& text(const char* name, std::string_view value) { return member(name, text_json(value)); }
  Parts& number(const char* name, std::uint64_t value) { return member(name, std::to_string(value)); }
  Parts& truth(const char* name, bool value) { return member(name, value ? "true" : "false"); }
  Parts& element(const std::string& json) {
    separate();
    text_ += json;
    return *this;
  }
  std::string end() const { return text_ + close_; }

 private:
  void separate() {
    if (text_.size() > 1) text_ += ", ";
  }
  std::string text_;
  char close_;
};

std::string json_of(const std::optional<Side>& side) {
  if (!side) return "null";
  Parts parts('{');
  parts.text("command", side->command).member("node", side->node.empty() ? "null" : text_json(side->node));
  parts.text("op", side->op).text("name", side->name).text("stream", side->stream).text("device", side->device);
  parts.truth("host", side->host).number("thread", side->thread).number("use", side->use).text("access", side->access);
  return parts.text("file", side->file).number("line", side->line).end();
}

std::string json_of(const Mend& mend) {
  Parts code('['), insert('['), edges('[');
  for (const Mend::Line& line : mend.code) {
    Parts one('{');
    one.text("where", line.before ? "before" : "after").text("file", line.file).number("line", line.line);
    code.element(one.text("text", line.text).end());
  }
  for (const Mend::Insert& added : mend.insert) {
    Parts op('{');
    op.text("op", added.op);
    if (!added.thread.empty()) op.text("thread", added.thread);
    if (!added.stream.empty()) op.text("stream", added.stream);
    if (!added.event.empty()) op.text("event", added.event);
    if (!added.other.empty()) op.text("for", added.other);
    Parts one('{');
    insert.element(one.text(added.before ? "before" : "after", added.command).member("op", op.end()).end());
  }
  for (const Mend::Edge& edge : mend.edges) {
    Parts one('{');
    edges.element(one.text("graph", edge.graph).text("node", edge.node).text("after", edge.after).end());
  }
  Parts parts('{');
  parts.truth("verified", mend.verified).member("code", code.end());
  return parts.member("insert", insert.end()).member("edges", edges.end()).end();
}

std::string json_of(const Finding& finding) {
  Parts also('['), bytes('['), buffer('{');
  for (const FindingKind kind : finding.also) also.element(text_json(to_text(kind)));
  for (const auto& [begin, end] : finding.bytes) {
    bytes.element("[" + std::to_string(begin) + ", " + std::to_string(end) + "]");
  }
  if (finding.buffer) {
    buffer.text("name", finding.buffer->name).number("id", finding.buffer->id).number("bytes", finding.buffer->bytes);
    buffer.text("file", finding.buffer->file).number("line", finding.buffer->line);
  }
  Parts parts('{');
  parts.text("kind", to_text(finding.kind)).member("also", also.end()).text("severity", to_text(finding.severity));
  parts.number("count", finding.count).text("key", finding.key);
  parts.member("first", json_of(finding.first)).member("second", json_of(finding.second));
  parts.member("buffer", finding.buffer ? buffer.end() : "null");
  parts.member("bytes", bytes.end()).number("bytes_total", finding.bytes_total).text("why", finding.why);
  if (finding.kind == FindingKind::misuse) parts.text("errc", finding.errc).text("what", finding.what);
  return parts.member("mend", finding.mend ? json_of(*finding.mend) : "null").end();
}

}  // namespace

std::string to_json(const CheckReport& report) {
  Parts findings('['), unchecked('['), summary('{');
  for (const Finding& finding : report.findings) findings.element(json_of(finding));
  for (const Unchecked& one : report.unchecked) {
    Parts parts('{');
    unchecked.element(parts.text("what", one.what).text("why", one.why).number("count", one.count).end());
  }
  summary.number("commands", report.commands).number("errors", report.errors).number("warnings", report.warnings);
  summary.number("hints", report.hints).number("suppressed", report.suppressed).number("dropped", report.dropped);
  Parts parts('{');
  parts.text("format", "weir.findings").number("version", 1).text("program", report.program);
  parts.text("device", report.device).text("host_order", to_text(report.host_order));
  parts.member("program_exit", std::to_string(report.program_exit));
  return parts.member("findings", findings.end())
      .member("unchecked", unchecked.end())
      .member("summary", summary.end())
      .end();
}

}  // namespace weir
