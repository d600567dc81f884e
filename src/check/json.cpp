// Reports as JSON: "weir.findings", version 1.
#include <string>

#include <weir/check.hpp>

#include "json/text.hpp"

namespace weir {

using json::literal;
using json::Parts;

namespace {

std::string json_of(const FindingPart<Side>& side) {
  if (!side) return "null";
  Parts parts('{');
  parts.text("command", side->command).member("node", side->node.empty() ? "null" : literal(side->node));
  parts.text("op", side->op).text("name", side->name).text("stream", side->stream).text("device", side->device);
  parts.truth("host", side->host).number("thread", side->thread);
  if (!side->thread_name.empty()) parts.text("thread_name", side->thread_name);
  parts.number("use", side->use).text("access", side->access);
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
  for (const FindingKind kind : finding.also) also.element(literal(to_text(kind)));
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
  Parts findings('['), unchecked('['), unmatched('['), summary('{');
  for (const Finding& finding : report.findings) findings.element(json_of(finding));
  for (const Unchecked& one : report.unchecked) {
    Parts parts('{');
    unchecked.element(parts.text("what", one.what).text("why", one.why).number("count", one.count).end());
  }
  for (const std::string& line : report.unmatched_suppressions) unmatched.element(literal(line));
  summary.number("commands", report.commands).number("errors", report.errors).number("warnings", report.warnings);
  summary.number("hints", report.hints).number("suppressed", report.suppressed).number("dropped", report.dropped);
  Parts parts('{');
  parts.text("format", "weir.findings").number("version", 1).text("program", report.program);
  parts.text("device", report.device).text("host_order", to_text(report.host_order));
  parts.member("program_exit", std::to_string(report.program_exit));
  return parts.member("findings", findings.end())
      .member("unchecked", unchecked.end())
      .member("unmatched_suppressions", unmatched.end())
      .member("summary", summary.end())
      .end();
}

}  // namespace weir
