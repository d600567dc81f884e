// The judge of findings.
#include "judge.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include "support/hazard_cases.hpp"
#include "support/sanitizers.hpp"

namespace check_test {

namespace {

using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

Ranges ranges(const json& list) {
  Ranges made;
  for (const json& one : list) made.emplace_back(one[0], one[1]);
  std::sort(made.begin(), made.end());
  Ranges joined;
  for (const auto& one : made) {
    if (!joined.empty() && one.first <= joined.back().second) {
      joined.back().second = std::max(joined.back().second, one.second);
    } else {
      joined.push_back(one);
    }
  }
  return joined;
}
bool within(const Ranges& inner, const Ranges& outer) {
  return std::all_of(inner.begin(), inner.end(), [&](const auto& one) {
    return std::any_of(outer.begin(), outer.end(),
                       [&](const auto& other) { return other.first <= one.first && one.second <= other.second; });
  });
}
void add(Ranges& to, const Ranges& more) {
  json all = json::array();
  for (const Ranges* list : {static_cast<const Ranges*>(&to), &more}) {
    for (const auto& [begin, end] : *list) all.push_back({begin, end});
  }
  to = ranges(all);
}

json node_of(const json& value) { return value.is_string() && value.get<std::string>().empty() ? json() : value; }

std::string brief(const json& finding) {
  return finding.at("key").get<std::string>() + " " + finding.at("bytes").dump() + " also " + finding.at("also").dump();
}

/// Of two nodes of one launch either may be called second.
json turned(const json& finding) {
  json other = finding;
  other["first"] = finding["second"];
  other["second"] = finding["first"];
  return other;
}
bool of_one_launch(const json& finding) {
  return finding["first"].is_object() && !finding["second"]["node"].is_null() &&
         finding["first"]["command"] == finding["second"]["command"];
}

const json* race_of(const json& races, const json& finding) {
  for (const json& race : races) {
    if (race["second"] == finding["second"]["command"] &&
        node_of(race.value("node", json())) == finding["second"]["node"] &&
        race["buffer"] == finding["buffer"]["name"]) {
      return &race;
    }
  }
  return nullptr;
}

/// Empty if it is true.
std::string untrue(const json& races, const json& finding) {
  const json* const race = race_of(races, finding);
  if (race == nullptr) return "no such race";
  std::set<std::string> kinds;
  Ranges bytes;
  bool partner = false, kind = false;
  for (const json& one : (*race)["partners"]) {
    for (const json& name : one["kinds"]) kinds.insert(name.get<std::string>());
    add(bytes, ranges(one["bytes"]));
    if (one["first"] != finding["first"]["command"] || node_of(one.value("node", json())) != finding["first"]["node"])
      continue;
    partner = true;
    for (const json& name : one["kinds"]) kind = kind || name == finding["kind"];
  }
  if (!partner) return "not with that first";
  if (!kind) return "not of that kind";
  for (const json& name : finding["also"]) {
    if (kinds.count(name.get<std::string>()) == 0) return "also " + name.get<std::string>();
  }
  return within(ranges(finding["bytes"]), bytes) ? "" : "more bytes than race";
}

}  // namespace

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> made;
    for (const char* const name : {"hazard_cases.json", "more_hazard_cases.json"}) {
      std::size_t place = 0;
      const bool shared = made.empty();
      for (const json& one : weir_test::hazard_cases(name)) {
        // Some of the others are enough to see what memory they touch.
        if (!shared && weir_test::under_address_sanitizer && place++ % 4 != 0) continue;
        made.push_back({one.at("id"), one.at("scenario"), one.at("expect")});
      }
    }
    return made;
  }();
  return all;
}

bool is_race(const json& finding) {
  static const std::set<std::string> kinds = {"use_before_alloc", "use_after_free",    "free_before_alloc",
                                              "read_after_write", "write_after_write", "write_after_read"};
  return kinds.count(finding.at("kind").get<std::string>()) != 0;
}

bool same_finding(const json& a, const json& b) {
  const auto side = [](const json& finding, const char* which) {
    const json& one = finding.at(which);
    return one.is_null() ? json() : json::array({one.at("command"), one.at("node")});
  };
  const auto pair = [&](const json& finding) {
    return std::set<json>{side(finding, "first"), side(finding, "second")};
  };
  const auto buffer = [](const json& finding) {
    return finding.at("buffer").is_null() ? json() : finding["buffer"].at("name");
  };
  return is_race(a) == is_race(b) && pair(a) == pair(b) && buffer(a) == buffer(b);
}

void judge_races(const json& findings, const json& races, std::vector<std::string>& wrong) {
  std::vector<json> right;
  for (const json& finding : findings) {
    if (!is_race(finding)) continue;
    std::string why = untrue(races, finding);
    if (why.empty()) {
      right.push_back(finding);
      continue;
    }
    if (of_one_launch(finding) && untrue(races, turned(finding)).empty()) {
      right.push_back(turned(finding));
      continue;
    }
    wrong.push_back("not true (" + why + "): " + brief(finding));
  }
  for (const json& race : races) {
    Ranges found;
    for (const json& finding : right) {
      if (race_of(json::array({race}), finding) != nullptr) add(found, ranges(finding["bytes"]));
    }
    if (!within(ranges(race["required_bytes"]), found)) {
      wrong.push_back("missed: " + race["second"].get<std::string>() + " " + race.value("node", json()).dump() +
                      " on " + race["buffer"].get<std::string>() + " " + race["required_bytes"].dump());
    }
  }
}

std::vector<std::string> judge(const json& report, const json& expect) {
  std::vector<std::string> wrong;
  judge_races(report.at("findings"), expect.at("races"), wrong);

  std::multiset<json> warnings, wanted_warnings;
  std::set<std::string> redundant, empty;
  std::set<std::pair<std::string, std::string>> misuse;
  for (const json& finding : report["findings"]) {
    const std::string kind = finding.at("kind");
    if (is_race(finding)) continue;
    const std::string second = finding["second"].at("command");
    if (kind == "redundant_wait") {
      redundant.insert(second);
    } else if (kind == "empty_wait") {
      empty.insert(second);
    } else if (kind == "misuse") {
      misuse.emplace(second, finding.at("errc"));
    } else {
      warnings.insert(json::object({{"kind", kind},
                                    {"second", second},
                                    {"node", finding["second"]["node"]},
                                    {"buffer", finding["buffer"]["name"]},
                                    {"bytes", finding["bytes"]}}));
    }
  }
  for (const json& one : expect.at("warnings")) {
    json with = one;
    if (!with.contains("node")) with["node"] = json();
    wanted_warnings.insert(with);
  }
  if (warnings != wanted_warnings)
    wrong.push_back("warnings " + json(warnings).dump() + ", not " + json(wanted_warnings).dump());
  if (redundant != expect.at("redundant_waits").get<std::set<std::string>>()) {
    wrong.push_back("redundant waits " + json(redundant).dump());
  }
  if (empty != expect.at("empty_waits").get<std::set<std::string>>())
    wrong.push_back("empty waits " + json(empty).dump());
  std::set<std::pair<std::string, std::string>> may;
  for (const json& one : expect.at("misuse")) {
    may.emplace(one["second"], one["errc"]);
    if (one.value("required", false) && misuse.count({one["second"], one["errc"]}) == 0) {
      wrong.push_back("missed misuse " + one.dump());
    }
  }
  for (const auto& one : misuse) {
    if (may.count(one) == 0) wrong.push_back("misuse of " + one.first + ": " + one.second);
  }
  return wrong;
}

json mended(const json& scenario, const json& mend) {
  json made = scenario;
  json& program = made["program"];
  std::set<std::string> events;
  for (const json& event : made.value("events", json::array())) events.insert(event["name"].get<std::string>());
  for (const json& insert : mend.at("insert")) {
    const bool before = insert.contains("before");
    const std::string id = before ? insert["before"] : insert["after"];
    const auto at = std::find_if(program.begin(), program.end(), [&](const json& one) {
      return one.value("id", "#" + std::to_string(&one - &program[0])) == id;
    });
    if (at == program.end()) return json();
    const json& op = insert.at("op");
    if (op["op"] == "record" && events.insert(op["event"].get<std::string>()).second) {
      const auto stream = std::find_if(made["streams"].begin(), made["streams"].end(),
                                       [&](const json& one) { return one["name"] == op["stream"]; });
      json event = {{"name", op["event"]}};
      if (stream->contains("device")) event["device"] = (*stream)["device"];
      if (!made.contains("events")) made["events"] = json::array();
      made["events"].push_back(event);
    }
    program.insert(before ? at : at + 1, op);
  }
  for (const json& edge : mend.at("edges")) {
    bool applied = false;
    const std::function<void(json&, const std::string&)> look = [&](json& nodes, const std::string& path) {
      for (json& node : nodes) {
        const std::string here = path + node["name"].get<std::string>();
        if (here == edge["node"].get<std::string>()) {
          const std::string after = edge["after"];
          node["after"].push_back(after.substr(path.size()));
          applied = true;
        }
        if (!node.contains("bodies")) continue;
        for (std::size_t i = 0; i < node["bodies"].size(); ++i) {
          look(node["bodies"][i], here + "[" + std::to_string(i) + "]/");
        }
      }
    };
    for (json& command : program) {
      if (command["op"] == "build_graph" && command["graph"] == edge["graph"]) look(command["nodes"], "");
    }
    if (!applied) return json();
  }
  return made;
}

}  // namespace check_test
