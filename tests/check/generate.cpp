// Random scenarios.
#include "generate.hpp"

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <weir/recording.hpp>

#include "reference.hpp"
#include "scenario/decoder.hpp"
#include "stress/random.hpp"

namespace check_test {

namespace {

using nlohmann::json;
using weir::scenario::Value;

Value value_of(const json& given) {
  Value value;
  if (given.is_string()) {
    value.kind = Value::Kind::string;
    value.text = given.get_ref<const std::string&>();
  } else if (given.is_boolean()) {
    value.kind = Value::Kind::boolean;
    value.truth = given.get<bool>();
  } else if (given.is_number()) {
    value.kind = Value::Kind::integer;
    value.whole = given.get<std::uint64_t>();
    value.real = static_cast<double>(value.whole);
  } else {
    value.kind = given.is_array() ? Value::Kind::array : Value::Kind::object;
    for (const auto& [key, item] : given.items()) {
      if (given.is_object()) value.keys.push_back(key);
      value.items.push_back(value_of(item));
    }
  }
  return value;
}

/// Programs that begin alike, without the detour by JSON's text: most of them are only asked whether they race.
class Beginning {
 public:
  explicit Beginning(const json& head) {
    for (const char* list : {"devices", "threads", "streams", "events", "buffers"}) add(list, head[list]);
    program_ = lists_.size();
    add("program", json::array());
  }

  void push(const json& command) { lists_[program_].second.push_back(value_of(command)); }

  weir::Recording with(const std::vector<json>& more) const {
    weir::scenario::Decoder decoder(weir::Recording::default_limit);
    decoder.member("format", value_of("weir.scenario"));
    decoder.member("version", value_of(1));
    for (const auto& [name, values] : lists_) {
      decoder.list_begins(name);
      for (std::size_t i = 0; i < values.size(); ++i) decoder.element(name, i, values[i]);
      if (name == "program") {
        for (std::size_t i = 0; i < more.size(); ++i) decoder.element(name, values.size() + i, value_of(more[i]));
      }
      decoder.list_ends(name);
    }
    return decoder.finish();
  }

 private:
  void add(const char* name, const json& list) {
    lists_.emplace_back(name, std::vector<Value>());
    for (const json& one : list) lists_.back().second.push_back(value_of(one));
  }

  std::vector<std::pair<std::string, std::vector<Value>>> lists_;
  std::size_t program_ = 0;
};

class Generator {
 public:
  explicit Generator(const Recipe& recipe) : recipe_(recipe), random_(recipe.seed) {}

  json all() {
    scenario_ = {{"format", "weir.scenario"}, {"version", 1}};
    scenario_["devices"] = {{{"name", "d0"}}, {{"name", "d1"}}};
    scenario_["threads"] = {"T1", "T2"};
    scenario_["streams"] = {{{"name", "b1"}, {"kind", "blocking"}},
                            {{"name", "b2"}, {"kind", "blocking"}},
                            {{"name", "n1"}, {"kind", "non_blocking"}},
                            {{"name", "n2"}, {"kind", "non_blocking"}},
                            {{"name", "L"}, {"kind", "legacy"}},
                            {{"name", "P"}, {"kind", "per_thread"}, {"thread", "T1"}},
                            {{"name", "x1"}, {"kind", "non_blocking"}, {"device", "d1"}},
                            {{"name", "y1"}, {"kind", "blocking"}, {"device", "d1"}},
                            {{"name", "L1"}, {"kind", "legacy"}, {"device", "d1"}}};
    for (std::size_t i = 0; i < most_short; ++i) {
      scenario_["streams"].push_back(
          {{"name", "t" + std::to_string(i)}, {"kind", i % 2 == 0 ? "non_blocking" : "blocking"}, {"later", true}});
    }
    scenario_["events"] = json::array();
    for (const char* name : {"e", "f", "g"}) scenario_["events"].push_back({{"name", name}});
    scenario_["events"].push_back({{"name", "z"}, {"device", "d1"}});
    const auto buffer = [&](const char* name, const char* kind, std::uint64_t bytes, const char* owner, bool later,
                            const char* home = nullptr) {
      json made = {{"name", name}, {"kind", kind}, {"bytes", bytes}, {"owner", owner}};
      if (later) made["start"] = "later";
      if (home != nullptr) made["home"] = home;
      scenario_["buffers"].push_back(made);
    };
    scenario_["buffers"] = json::array();
    buffer("a", "device", 96, "array", false, "n1");
    buffer("b", "device", 96, "array", false, "b1");
    buffer("p", "pinned", 96, "array", false);
    buffer("h", "pageable", 96, "array", false);
    buffer("H", "pageable", 2 << 20, "array", false);
    buffer("D", "device", 2 << 20, "array", false);
    buffer("u", "pageable", 96, "user", false);
    buffer("v", "pinned", 96, "user", false);
    buffer("m", "device", 96, "pool", true);
    buffer("k", "device", 96, "array", true);
    scenario_["program"] = json::array();
    if (recipe_.ordered) beginning_.emplace(scenario_);
    while (scenario_["program"].size() < recipe_.commands) put(random_command());
    while (!scopes_.empty()) close();
    return scenario_;
  }

 private:
  std::string stream() {
    if (short_lives_ && random_.percent(25)) return short_stream();
    static const std::vector<std::string> names = {"b1", "b2", "n1", "n2", "L", "P", "x1", "y1", "L1"};
    return names[random_.weighted({4, 4, 4, 4, 2, 1, 2, 1, 1})];
  }
  std::string event_of(const std::string& stream) {
    static const std::vector<std::string> names = {"e", "f", "g"};
    return stream == "x1" || stream == "y1" || stream == "L1" ? "z" : random_.pick(names);
  }
  std::string event() { return random_.percent(20) ? "z" : event_of(""); }

  std::vector<std::string> buffers(bool host) {
    std::vector<std::string> all = {"p", "h", "u", "v"};
    if (!host) {
      all = {"a", "a", "b", "b", "p", "h", "v", "D"};
      if (allocated_.count("m") != 0) all.insert(all.end(), {"m", "m"});
      if (allocated_.count("k") != 0) all.insert(all.end(), {"k", "k"});
    }
    std::erase_if(all, [&](const std::string& name) { return gone_.count(name) != 0; });
    return all;
  }
  json use(const std::string& buffer, bool plain = false) {
    json made = {{"buffer", buffer}};
    if (buffer == "D" || buffer == "H") return made;
    switch (random_.weighted({3, 3, plain ? 0u : 2u})) {
      case 0: break;
      case 1: {
        const std::size_t begin = random_.below(6) * 16, end = random_.between(begin / 16 + 1, 6) * 16;
        made["offset"] = begin;
        made["bytes"] = end - begin;
        break;
      }
      default:
        made["offset"] = random_.below(2) * 8;
        made["bytes"] = 8;
        made["repeat"] = {{random_.between(2, 5), 16}};
    }
    return made;
  }
  json uses(bool host, std::size_t most) {
    json all = json::array();
    const std::vector<std::string> names = buffers(host);
    std::set<std::string> taken;
    for (std::size_t i = random_.between(1, most); i > 0; --i) {
      const std::string name = random_.pick(names);
      if (!taken.insert(name).second) continue;
      json one = use(name);
      static const std::vector<std::string> accesses = {"in", "out", "inout", "accumulate"};
      one["access"] = accesses[random_.weighted({4, 3, 2, 1})];
      if (random_.percent(15)) one["raw"] = true;
      all.push_back(one);
    }
    return all;
  }

  json copy(const std::string& on) {
    if (random_.percent(20)) return {{"op", "copy"}, {"stream", on}, {"to", "D"}, {"from", "H"}};
    std::vector<std::string> from = buffers(false);
    from.insert(from.end(), {"h", "h"});
    std::erase(from, "D");
    std::erase_if(from, [&](const std::string& name) { return gone_.count(name) != 0; });
    std::string to = random_.pick(from), source = random_.pick(from);
    if (to == source) source = to == "a" ? "b" : "a";
    if (gone_.count(source) != 0) return {{"op", "copy"}, {"stream", on}, {"to", "D"}, {"from", "H"}};
    json made = {{"op", "copy"}, {"stream", on}, {"to", use(to, true)}, {"from", use(source, true)}};
    made["from"]["offset"] = made["to"].value("offset", 0);
    made["from"]["bytes"] = made["to"].value("bytes", 96);
    return made;
  }

  json nodes(std::size_t most, std::size_t depth) {
    json list = json::array();
    for (std::size_t i = random_.between(1, most); i > 0; --i) {
      json node = {{"name", "k" + std::to_string(list.size())}};
      const std::size_t what =
          random_.weighted({8, 2, depth > 0 ? 2u : 0u, depth > 0 && !graphs_.empty() ? 1u : 0u, 1, 1, 1});
      if (what == 0 || what == 6) {
        node["op"] = what == 6 ? "host_function" : "launch";
        node["uses"] = uses(false, 2);
      } else if (what == 1) {
        json moved = copy("b1");
        node["op"] = "copy";
        node["to"] = moved["to"];
        node["from"] = moved["from"];
      } else if (what == 2) {
        node["op"] = random_.percent(50) ? "if" : "while";
        node["condition"] = {{"buffer", "b"}, {"offset", 0}, {"bytes", 4}};
        node["bodies"] = json::array({nodes(2, depth - 1)});
        if (node["op"] == "if" && random_.percent(50)) node["bodies"].push_back(nodes(2, depth - 1));
      } else if (what == 3) {
        node["op"] = "graph";
        node["graph"] = random_.pick(graphs_);
      } else {
        node["op"] = what == 4 ? "record" : "wait";
        node["event"] = event_of("");
        if (depth == 0) node = {{"name", node["name"]}, {"op", "empty"}};
      }
      node["after"] = json::array();
      for (const json& before : list) {
        if (random_.percent(recipe_.ordered ? 80 : 45)) node["after"].push_back(before["name"]);
      }
      list.push_back(node);
    }
    return list;
  }

  /// A capture on one or two streams, joined at its end.
  std::vector<json> capture() {
    static const std::vector<std::string> able = {"b1", "b2", "n1", "n2"};
    const std::string origin = random_.pick(able);
    std::string other = random_.pick(able);
    if (other == origin) other = origin == "n1" ? "n2" : "n1";
    std::vector<json> made = {{{"op", "begin_capture"}, {"stream", origin}}};
    const bool fork = random_.percent(60);
    if (fork) made.push_back({{"op", "wait"}, {"stream", other}, {"for", origin}});
    for (std::size_t i = random_.between(1, 4); i > 0; --i) {
      const std::string& on = fork && random_.percent(50) ? other : origin;
      if (random_.percent(20) && !graphs_.empty()) {
        made.push_back({{"op", "launch_graph"}, {"stream", on}, {"graph", random_.pick(graphs_)}});
      } else if (fork && random_.percent(20)) {
        made.push_back({{"op", "wait"}, {"stream", on == origin ? other : origin}, {"for", on}});
      } else {
        made.push_back({{"op", "launch"}, {"stream", on}, {"uses", uses(false, 2)}});
      }
    }
    if (fork) made.push_back({{"op", "wait"}, {"stream", origin}, {"for", other}});
    const std::string name = "c" + std::to_string(scenario_["program"].size());
    made.push_back({{"op", "end_capture"}, {"stream", origin}, {"graph", name}});
    graphs_.push_back(name);
    return made;
  }

  json sync(const std::string& on) {
    switch (random_.weighted({4, 3, 2, 1})) {
      case 0: return {{"op", "synchronize"}, {"stream", on}};
      case 1: return {{"op", "synchronize"}, {"event", event()}};
      case 2: return {{"op", "synchronize"}, {"device", random_.percent(70) ? "d0" : "d1"}};
      default: return {{"op", "synchronize"}, {"all", true}};
    }
  }

  /// Of the streams that live one after the other, the one that lives now.
  std::string short_stream() const { return "t" + std::to_string(short_streams_ - 1); }
  std::vector<json> make_or_drop() {
    if (short_lives_) {
      short_lives_ = false;
      return {{{"op", "drop"}, {"stream", short_stream()}}};
    }
    if (short_streams_ == most_short) return {};
    ++short_streams_;
    short_lives_ = true;
    return {{{"op", "make"}, {"stream", short_stream()}}};
  }

  std::vector<json> random_command() {
    if (random_.percent(8)) return make_or_drop();
    const std::string on = stream();
    switch (random_.weighted({12, 4, 2, 3, 6, 6, 4, 4, 2, 5, 2, 2, 3, 2, 3, 5, 2})) {
      case 0: return {{{"op", "launch"}, {"stream", on}, {"uses", uses(false, 3)}}};
      case 1: return {copy(on)};
      case 2: {
        const std::vector<std::string> names = buffers(false);
        return {{{"op", "fill"}, {"stream", on}, {"to", use(random_.pick(names), true)}}};
      }
      case 3: {
        json made = {{"op", "host_function"}, {"stream", on}, {"uses", uses(true, 2)}};
        if (random_.percent(30)) made["gives"] = {"x"};
        return {made};
      }
      case 4: return {{{"op", "record"}, {"stream", on}, {"event", event_of(on)}}};
      case 5: return {{{"op", "wait"}, {"stream", on}, {"event", event()}}};
      case 6: return {{{"op", "wait"}, {"stream", on}, {"for", stream()}}};
      case 7: return {sync(on)};
      case 8:
        if (random_.percent(50)) return {{{"op", "query"}, {"stream", on}, {"answer", random_.percent(60)}}};
        return {{{"op", "query"}, {"event", event()}, {"answer", random_.percent(60)}}};
      case 9: {
        json made = {{"op", random_.percent(50) ? "host_read" : "host_write"}, {"uses", json::array()}};
        made["uses"].push_back(use(random_.pick(buffers(true))));
        return {made};
      }
      case 10: {
        if (!scopes_.empty()) {
          close();
          return {};
        }
        const std::string name = "s" + std::to_string(scenario_["program"].size());
        json opened = use(random_.pick(buffers(true)));
        opened["access"] = random_.percent(50) ? "in" : "inout";
        scopes_.push_back(name);
        return {{{"op", "host_open"}, {"scope", name}, {"use", opened}}};
      }
      case 11: return {{{"op", "give"}, {"name", "x"}}};
      case 12: return {{{"op", "take"}, {"name", "x"}}};
      case 13: {
        const std::string name = random_.percent(50) ? "m" : "k";
        const std::string own = name == "m" || random_.percent(80) ? on : "n1";
        if (own == "x1" || own == "y1" || own == "L1") return {};
        if (allocated_.insert(name).second) return {{{"op", "alloc"}, {"buffer", name}, {"stream", own}}};
        if (!freed_.insert(name).second) return {};
        if (name == "k") gone_.insert(name);
        return {{{"op", "free"}, {"buffer", name}, {"stream", own}}};
      }
      case 14: {
        const std::string name = "g" + std::to_string(scenario_["program"].size());
        json made = {{"op", "build_graph"}, {"graph", name}, {"nodes", nodes(4, 2)}};
        graphs_.push_back(name);
        for (const json& node : made["nodes"]) {
          if (node["op"] == "launch") changeable_.emplace_back(name, node["name"]);
        }
        return {made};
      }
      case 15:
        if (!changeable_.empty() && random_.percent(20)) {
          const auto& [graph, node] = random_.pick(changeable_);
          if (random_.percent(50)) {
            return {{{"op", "enable_node"}, {"graph", graph}, {"node", node}, {"enabled", random_.percent(40)}}};
          }
          return {{{"op", "update_node"}, {"graph", graph}, {"node", node}, {"uses", uses(false, 2)}}};
        }
        if (graphs_.empty()) return {};
        return {{{"op", "launch_graph"}, {"stream", on}, {"graph", random_.pick(graphs_)}}};
      default: return capture();
    }
  }

  void close() {
    if (scopes_.empty()) return;
    const std::string name = scopes_.back();
    scopes_.pop_back();
    push({{"op", "host_close"}, {"scope", name}, {"id", "c" + std::to_string(ids_++)}});
  }

  /// Whether the last command of the scenario, if these come too, races with anything.
  bool races(const std::vector<json>& more) const {
    const weir::Recording recording = beginning_->with(more);
    Reference reference(recording);
    for (std::size_t i = 0; i < recording.size(); ++i) {
      reference.call(i);
      if (reference.last_raced()) return true;
    }
    return false;
  }

  void put(std::vector<json> made) {
    static const std::vector<std::string> threads = {"T1", "T2"};
    if (made.empty()) return;
    const std::string thread = random_.percent(75) ? "T1" : "T2";
    for (json& one : made) {
      one["id"] = "c" + std::to_string(ids_++);
      one["thread"] = one.value("stream", "") == "P" || one.value("for", "") == "P" ? "T1" : thread;
    }
    if (recipe_.ordered && races(made)) {
      std::optional<std::vector<json>> ordered;
      for (int attempt = 0; attempt < 4 && !ordered; ++attempt) {
        std::vector<json> tried =
            attempt < 3 && made[0].contains("stream") ? fix(made[0]["stream"]) : std::vector<json>{};
        const std::string thread_of = made[0]["thread"], other_thread = thread_of == "T1" ? "T2" : "T1";
        if (attempt == 3) {
          tried.push_back(json::object({{"op", "give"}, {"name", "x"}, {"thread", other_thread}}));
          tried.push_back(json::object({{"op", "take"}, {"name", "x"}, {"thread", thread_of}}));
        }
        if (attempt == 3 || tried.empty()) {
          tried.push_back(json::object({{"op", "synchronize"}, {"all", true}, {"thread", thread_of}}));
        }
        for (json& one : tried) one["id"] = "c" + std::to_string(ids_++);
        std::vector<json> both = tried;
        both.insert(both.end(), made.begin(), made.end());
        if (!races(both)) ordered = both;
      }
      if (!ordered) {
        undo(made);
        return;
      }
      made = *ordered;
    }
    for (json& one : made) push(std::move(one));
  }
  void push(json command) {
    if (beginning_) beginning_->push(command);
    scenario_["program"].push_back(std::move(command));
  }
  /// A command was left out: what it made is not there.
  void undo(const std::vector<json>& made) {
    for (const json& one : made) {
      if (one.contains("graph") && (one["op"] == "build_graph" || one["op"] == "end_capture")) {
        const auto graph = one["graph"].get<std::string>();
        std::erase(graphs_, graph);
        std::erase_if(changeable_, [&](const auto& node) { return node.first == graph; });
      }
      if (one["op"] == "alloc") allocated_.erase(one["buffer"]);
      if (one["op"] == "free") {
        freed_.erase(one["buffer"]);
        gone_.erase(one["buffer"]);
      }
      if (one["op"] == "host_open") std::erase(scopes_, one["scope"].get<std::string>());
    }
  }
  std::vector<json> fix(const std::string& on) {
    const std::string other = stream();
    if (random_.percent(50)) {
      return {json::object({{"op", "wait"}, {"stream", on}, {"for", other}, {"thread", "T1"}})};
    }
    const std::string e = event_of(other);
    return {json::object({{"op", "record"}, {"stream", other}, {"event", e}, {"thread", "T1"}}),
            json::object({{"op", "wait"}, {"stream", on}, {"event", e}, {"thread", "T1"}})};
  }

  Recipe recipe_;
  weir::stress::Random random_;
  json scenario_;
  std::optional<Beginning> beginning_;
  std::vector<std::string> scopes_;
  std::vector<std::string> graphs_;
  std::vector<std::pair<std::string, std::string>> changeable_;
  std::size_t ids_ = 0;
  std::set<std::string> allocated_, freed_, gone_;
  static constexpr std::size_t most_short = 6;
  std::size_t short_streams_ = 0;
  bool short_lives_ = false;
};

}  // namespace

json generate(const Recipe& recipe) { return Generator(recipe).all(); }

std::vector<std::size_t> orders(const json& scenario) {
  std::vector<std::size_t> places;
  bool capturing = false;
  for (std::size_t i = 0; i < scenario["program"].size(); ++i) {
    const std::string op = scenario["program"][i]["op"];
    if (op == "begin_capture") capturing = true;
    if (op == "end_capture") capturing = false;
    if (!capturing &&
        (op == "record" || op == "wait" || op == "synchronize" || op == "give" || op == "take" || op == "query")) {
      places.push_back(i);
    }
  }
  return places;
}

}  // namespace check_test
