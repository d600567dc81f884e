// The timeline as one HTML file: its data, numbers and reasons in the page's frame.
#include <algorithm>
#include <array>
#include <ostream>
#include <string>
#include <utility>

#include <weir/trace.hpp>

#include "json/text.hpp"
#include "trace/page/columns.hpp"
#include "trace/page/sources.hpp"

namespace weir::trace {

namespace {

std::string escaped(std::string_view text) {
  std::string made;
  for (const char c : text) {
    if (c == '<')
      made += "&lt;";
    else if (c == '&')
      made += "&amp;";
    else
      made += c;
  }
  return made;
}

/// JSON that cannot end the element that holds it.
std::string in_script(std::string json) {
  for (std::size_t at = json.find('<'); at != std::string::npos; at = json.find('<', at)) {
    json.replace(at, 1, "\\u003c");
  }
  return json;
}

template <class Enum>
std::string words(std::size_t count) {
  json::Parts list('[');
  for (std::size_t i = 0; i < count; ++i) list.element(json::literal(to_text(static_cast<Enum>(i))));
  return list.end();
}

/// What the page's script must know of the words that numbers in the columns stand for.
std::string meta(const Timeline& timeline) {
  json::Parts made('{');
  made.text("program", timeline.program).text("clock", timeline.clock).text("date", timeline.date);
  made.text("note", timeline.note).number("commands", timeline.commands.size());
  made.member("lanes", words<Lane>(lane_count)).member("ties", words<Tie>(tie_count));
  made.number("engines", static_cast<std::size_t>(Lane::memory));  // the lanes before it take time
  return made.member("states", R"(["ran", "skipped", "pending"])").end();
}

std::string script() {
  std::string joined;
  for (const std::string_view part : page_scripts) joined += part;
  return joined;
}

}  // namespace

void write_page(const Timeline& timeline, std::ostream& out) {
  Summary summary = summarize(timeline);
  const std::vector<std::uint32_t> critical_path = std::exchange(summary.critical_path, {});
  std::vector<Held> held = explain(timeline);
  constexpr std::size_t most = 100;  // the dearest
  held.resize(std::min(held.size(), most));
  const std::array<std::pair<std::string_view, std::string>, 7> parts = {{
      {"@TITLE@", escaped(timeline.program.empty() ? "Weir timeline" : timeline.program + " - Weir timeline")},
      {"@STYLE@", std::string(page_style)},
      {"@META@", in_script(meta(timeline))},
      {"@SUMMARY@", in_script(to_json(summary, timeline))},
      {"@REASONS@", in_script(to_json(held, timeline))},
      {"@SCRIPT@", script()},
      {"@DATA@", to_columns(timeline, critical_path)},
  }};
  std::string_view frame = page_frame;
  for (const auto& [mark, part] : parts) {
    const std::size_t at = frame.find(mark);
    out << frame.substr(0, at) << part;
    frame.remove_prefix(at + mark.size());
  }
  out << frame;
}

}  // namespace weir::trace
