// Wrong scenario files: each mistake is an error that names the member; damaged and hostile files are errors in bounded memory.
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/error.hpp>
#include <weir/recording.hpp>

#include "cases.hpp"
#include "everything.hpp"
#include "support/errors.hpp"

namespace {

using recording_test::cases;
using recording_test::everything;
using recording_test::packed;
using recording_test::Parts;
using recording_test::scenario;
using weir::Errc;
using weir_test::error_of;

/// "program[3].uses[1].buffer" of an error; the whole message where it has no such form.
std::string path_in(const weir::Error& error) {
  const std::string text = error.what(), head = "weir::parse_recording: scenario: ";
  if (text.rfind(head, 0) != 0) return text;
  return text.substr(head.size(), text.find(": ", head.size()) - head.size());
}

struct Mistake {
  const char* name;
  std::string text;
  const char* path;
};

std::string program(const std::string& commands) { return scenario({.program = commands}); }

std::vector<Mistake> mistakes() {
  std::vector<Mistake> all;
  const auto add = [&](const char* name, std::string text, const char* path) {
    all.push_back({name, std::move(text), path});
  };
  // ---- of the file
  add("no format", R"({"version": 1, "streams": [], "buffers": [], "program": []})", "format");
  add("another format", R"({"format": "weir.cases"})", "format");
  add("another version", R"({"format": "weir.scenario", "version": 2})", "version");
  add("version is text", R"({"format": "weir.scenario", "version": "1"})", "version");
  add("no program", R"({"format": "weir.scenario", "version": 1, "streams": [], "buffers": []})", "program");
  add("no buffers", R"({"format": "weir.scenario", "version": 1, "streams": [], "program": []})", "buffers");
  add("unknown member of the file", scenario({.more = R"("stream": [])"}), "stream");
  add("member twice", scenario({.more = R"("streams": [])"}), "streams");
  add("program is an object", R"({"program": {}})", "program");
  add("no devices at all", scenario({.more = R"("devices": [])"}), "devices");
  // ---- declarations
  add("device twice", scenario({.more = R"("devices": [{"name": "d"}, {"name": "d"}])"}), "devices[1].name");
  add("thread is a number", scenario({.more = R"("threads": ["T", 1])"}), "threads[1]");
  add("stream without kind", scenario({.streams = R"({"name": "s"})"}), "streams[0].kind");
  add("stream of no kind", scenario({.streams = R"({"name": "s", "kind": "fast"})"}), "streams[0].kind");
  add("name with a blank", scenario({.streams = R"({"name": "a b", "kind": "blocking"})"}), "streams[0].name");
  add("name of 65", scenario({.events = R"({"name": ")" + std::string(65, 'e') + R"("})"}), "events[0].name");
  add("stream of no device", scenario({.streams = R"({"name": "s", "kind": "blocking", "device": "dev9"})"}),
      "streams[0].device");
  add("priority with a fraction", scenario({.streams = R"({"name": "s", "kind": "blocking", "priority": 0.5})"}),
      "streams[0].priority");
  add("default stream made later", scenario({.streams = R"({"name": "s", "kind": "legacy", "later": true})"}),
      "streams[0].later");
  add("unknown member of an event", scenario({.events = R"({"name": "e", "kind": "timed"})"}), "events[0].kind");
  add("buffer twice",
      scenario(
          {.buffers = R"({"name": "a", "kind": "device", "bytes": 1}, {"name": "a", "kind": "device", "bytes": 1})"}),
      "buffers[1].name");
  add("negative bytes", scenario({.buffers = R"({"name": "a", "kind": "device", "bytes": -1})"}), "buffers[0].bytes");
  add("bytes beyond all", scenario({.buffers = R"({"name": "a", "kind": "device", "bytes": 18446744073709551616})"}),
      "buffers[0].bytes");
  add("pinned pool", scenario({.buffers = R"({"name": "a", "kind": "pinned", "bytes": 1, "owner": "pool"})"}),
      "buffers[0].owner");
  add("home that nobody declared", scenario({.buffers = R"({"name": "a", "kind": "device", "bytes": 1, "home": "z"})"}),
      "buffers[0].home");
  add("start that is no word", scenario({.buffers = R"({"name": "a", "kind": "device", "bytes": 1, "start": true})"}),
      "buffers[0].start");
  // ---- commands
  add("command is text", program(R"("launch")"), "program[0]");
  add("no op", program(R"({"stream": "s"})"), "program[0].op");
  add("no such op", program(R"({"op": "jump"})"), "program[0].op");
  add("op of nodes", program(R"({"op": "empty"})"), "program[0].op");
  add("undeclared stream", program(R"({"op": "launch", "stream": "z"})"), "program[0].stream");
  add("stream before it is made", program(R"({"op": "launch", "stream": "t"})"), "program[0].stream");
  add("made twice", program(R"({"op": "make", "stream": "t"}, {"op": "make", "stream": "t"})"), "program[1].stream");
  add("made, and there from the start", program(R"({"op": "make", "event": "e"})"), "program[0].event");
  add("undeclared buffer", program(R"({"op": "launch", "stream": "s", "uses": ["a", {"buffer": "z"}]})"),
      "program[0].uses[1].buffer");
  add("buffer before it is allocated", program(R"({"op": "fill", "stream": "s", "to": "n"})"), "program[0].to");
  add("allocated twice",
      program(R"({"op": "alloc", "stream": "s", "buffer": "n"}, {"op": "alloc", "stream": "s", "buffer": "n"})"),
      "program[1].buffer");
  add("allocated, and there from the start", program(R"({"op": "alloc", "stream": "s", "buffer": "a"})"),
      "program[0].buffer");
  add("device memory without a stream", program(R"({"op": "alloc", "buffer": "n"})"), "program[0].stream");
  add("offset beyond the buffer", program(R"({"op": "fill", "stream": "s", "to": {"buffer": "a", "offset": 65}})"),
      "program[0].to.offset");
  add("bytes beyond the buffer",
      program(R"({"op": "fill", "stream": "s", "to": {"buffer": "a", "offset": 60, "bytes": 5}})"),
      "program[0].to.bytes");
  add("repetition beyond the buffer",
      program(R"({"op": "fill", "stream": "s", "to": {"buffer": "a", "bytes": 4, "repeat": [[1000000000, 8]]}})"),
      "program[0].to.repeat");
  add("four repetitions",
      program(
          R"({"op": "fill", "stream": "s", "to": {"buffer": "a", "bytes": 1, "repeat": [[1,1],[1,1],[1,1],[1,1]]}})"),
      "program[0].to.repeat");
  add("stride forgotten",
      program(R"({"op": "fill", "stream": "s", "to": {"buffer": "a", "bytes": 1, "repeat": [[2]]}})"),
      "program[0].to.repeat[0]");
  add("no such access", program(R"({"op": "launch", "stream": "s", "uses": [{"buffer": "a", "access": "read"}]})"),
      "program[0].uses[0].access");
  add("sides of different size",
      program(R"({"op": "copy", "stream": "s", "to": "a", "from": {"buffer": "p", "bytes": 8}})"), "program[0].from");
  add("copy without from", program(R"({"op": "copy", "stream": "s", "to": "a"})"), "program[0].from");
  add("wait for two", program(R"({"op": "wait", "stream": "s", "event": "e", "for": "s"})"), "program[0].for");
  add("wait for nothing", program(R"({"op": "wait", "stream": "s"})"), "program[0]");
  add("synchronize not all", program(R"({"op": "synchronize", "all": false})"), "program[0].all");
  add("query without answer", program(R"({"op": "query", "stream": "s"})"), "program[0].answer");
  add("member of another op", program(R"({"op": "fill", "stream": "s", "to": "a", "from": "p"})"), "program[0].from");
  add("kernels give nothing", program(R"({"op": "launch", "stream": "s", "gives": ["h"]})"), "program[0].gives");
  add("cost that says nothing", program(R"({"op": "launch", "stream": "s", "cost": {}})"), "program[0].cost");
  add("cost of another unit", program(R"({"op": "launch", "stream": "s", "cost": {"us": 1}})"), "program[0].cost.us");
  add("negative cost", program(R"({"op": "launch", "stream": "s", "cost": {"ns": -0.5}})"), "program[0].cost.ns");
  add("id twice", program(R"({"id": "c", "op": "give", "name": "h"}, {"id": "c", "op": "give", "name": "h"})"),
      "program[1].id");
  add("id that is a place", program(R"({"op": "give", "name": "h"}, {"id": "#0", "op": "give", "name": "h"})"),
      "program[1].id");
  add("undeclared thread", program(R"({"op": "work", "ns": 1, "thread": "T"})"), "program[0].thread");
  add("line beyond all", program(R"({"op": "work", "ns": 1, "line": 4294967295})"), "program[0].line");
  add("scope open twice",
      program(R"({"op": "host_open", "scope": "v", "use": "p"}, {"op": "host_open", "scope": "v", "use": "p"})"),
      "program[1].scope");
  add("scope not open", program(R"({"op": "host_close", "scope": "v"})"), "program[0].scope");
  // ---- graphs
  add("graph that nobody made", program(R"({"op": "launch_graph", "stream": "s", "graph": "g"})"), "program[0].graph");
  const auto graph = [](const std::string& nodes, const std::string& then = "") {
    return program(R"({"op": "build_graph", "graph": "g", "nodes": [)" + nodes + "]}" + then);
  };
  add("after itself", graph(R"({"name": "k", "op": "empty", "after": ["k"]})"), "program[0].nodes[0].after[0]");
  add("after one that comes later",
      graph(R"({"name": "k", "op": "empty", "after": ["l"]}, {"name": "l", "op": "empty"})"),
      "program[0].nodes[0].after[0]");
  add("node twice", graph(R"({"name": "k", "op": "empty"}, {"name": "k", "op": "empty"})"), "program[0].nodes[1].name");
  add("op of commands", graph(R"({"name": "k", "op": "synchronize"})"), "program[0].nodes[0].op");
  add("node on a stream", graph(R"({"name": "k", "op": "launch", "stream": "s"})"), "program[0].nodes[0].stream");
  add("three bodies of an if", graph(R"({"name": "k", "op": "if", "condition": "a", "bodies": [[], [], []]})"),
      "program[0].nodes[0].bodies");
  add("mistake in a body",
      graph(
          R"({"name": "k", "op": "if", "condition": "a", "bodies": [[], [{"name": "l", "op": "launch", "uses": ["z"]}]]})"),
      "program[0].nodes[0].bodies[1][0].uses[0]");
  add("child that nobody made", graph(R"({"name": "k", "op": "graph", "graph": "h"})"), "program[0].nodes[0].graph");
  const std::string one = R"({"name": "k", "op": "launch"})";
  add("update of no node", graph(one, R"(, {"op": "update_node", "graph": "g", "node": "l", "uses": []})"),
      "program[1].node");
  add("update of a node of another kind",
      graph(one, R"(, {"op": "update_node", "graph": "g", "node": "k", "to": "a"})"), "program[1].node");
  add("enabling what is not said", graph(one, R"(, {"op": "enable_node", "graph": "g", "node": "k"})"),
      "program[1].enabled");
  // ---- collectives
  const auto call = [&](const char* name, const std::string& members, const char* path) {
    add(name,
        scenario({.program = R"({"op": "external", "stream": "s"}, {"op": "fill", "stream": "s", "to": "a"},
                                {"op": "build_graph", "graph": "g", "nodes": [{"name": "k", "op": "empty"}]})",
                  .more = R"("x-collectives": [)" + members + "]"}),
        path);
  };
  add("collectives are an object", scenario({.more = R"("x-collectives": {})"}), "x-collectives");
  call("collective is a number", "1", "x-collectives[0]");
  call("collective of no command", R"({"communicator": 1})", "x-collectives[0].command");
  call("command beyond all", R"({"command": 3})", "x-collectives[0].command");
  call("command of another kind", R"({"command": 1})", "x-collectives[0].command");
  call("node beyond all", R"({"command": 2, "node": "l", "communicator": 1})", "x-collectives[0].node");
  call("node of another kind", R"({"command": 2, "node": "k", "communicator": 1})", "x-collectives[0].node");
  call("collective of no communicator", R"({"command": 0, "number": 1, "rank": 0, "ranks": 2})",
       "x-collectives[0].communicator");
  call("communicator 0", R"({"command": 0, "communicator": 0, "number": 1, "rank": 0, "ranks": 2})",
       "x-collectives[0].communicator");
  call("collective without a number", R"({"command": 0, "communicator": 1, "rank": 0, "ranks": 2})",
       "x-collectives[0].number");
  call("rank beyond all", R"({"command": 0, "communicator": 1, "number": 1, "rank": 2, "ranks": 2})",
       "x-collectives[0].rank");
  call("ranks beyond all", R"({"command": 0, "communicator": 1, "number": 1, "rank": 2, "ranks": 4294967296})",
       "x-collectives[0].ranks");
  call("send to nobody", R"({"command": 0, "communicator": 1, "rank": 0, "ranks": 2, "from": 0})",
       "x-collectives[0].to");
  call("send of others", R"({"command": 0, "communicator": 1, "rank": 2, "ranks": 3, "from": 0, "to": 1})",
       "x-collectives[0].rank");
  call("unknown member of a collective",
       R"({"command": 0, "communicator": 1, "number": 1, "rank": 0, "ranks": 2, "root": 0})", "x-collectives[0].root");
  // ---- what host functions of graphs work
  const auto work = [&](const char* name, const std::string& members, const char* path) {
    add(name,
        scenario({.program = R"({"op": "build_graph", "graph": "g", "nodes": [{"name": "f", "op": "host_function"},
                                {"name": "k", "op": "empty"}]}, {"op": "launch_graph", "graph": "g", "stream": "s"})",
                  .more = R"("x-host-work": [)" + members + "]"}),
        path);
  };
  work("work is a number", "1", "x-host-work[0]");
  work("work in no launch", R"({"node": "f", "ns": 1})", "x-host-work[0].command");
  work("work in a launch beyond all", R"({"command": 2, "node": "f", "ns": 1})", "x-host-work[0].command");
  work("work in another command", R"({"command": 0, "node": "f", "ns": 1})", "x-host-work[0].command");
  work("work of no node", R"({"command": 1, "node": "n", "ns": 1})", "x-host-work[0].node");
  work("work of another node", R"({"command": 1, "node": "k", "ns": 1})", "x-host-work[0].node");
  work("work below 0", R"({"command": 1, "node": "f", "ns": -1})", "x-host-work[0].ns");
  work("work without a time", R"({"command": 1, "node": "f"})", "x-host-work[0].ns");
  work("unknown member of work", R"({"command": 1, "node": "f", "ns": 1, "us": 1})", "x-host-work[0].us");
  work("work after another one", R"({"command": 1, "node": "f", "ns": 1}, {"command": 1, "node": "k", "ns": 1})",
       "x-host-work[1].node");
  return all;
}

TEST(ScenarioMistakes, are_errors_that_name_the_member) {
  EXPECT_NO_THROW(weir::parse_recording(scenario({})));
  ASSERT_GE(mistakes().size(), 60u);
  for (const Mistake& mistake : mistakes()) {
    const auto error = error_of([&] { weir::parse_recording(mistake.text); });
    ASSERT_TRUE(error) << mistake.name << "\n" << mistake.text;
    EXPECT_EQ(error->errc(), Errc::invalid_value) << mistake.name;
    EXPECT_EQ(path_in(*error), mistake.path) << mistake.name << "\n" << error->what();
  }
}

/// What reading says: "" if it can be read.
std::string outcome(const std::string& text, std::size_t limit = std::size_t{1} << 24) {
  try {
    weir::parse_recording(text, "scenario", {.limit = limit});
    return "";
  } catch (const weir::Error& error) {
    EXPECT_TRUE(error.errc() == Errc::invalid_value || error.errc() == Errc::out_of_memory) << error.what();
    return error.what();
  }
}
void expect_error(const std::string& text, const char* part) {
  const std::string said = outcome(text);
  EXPECT_NE(said.find(part), std::string::npos) << said;
  EXPECT_LT(said.size(), 1000u);
}

TEST(ScenarioMistakes, of_hostile_files_are_errors_in_bounded_memory) {
  const std::string good = scenario({.program = R"({"op": "fill", "stream": "s", "to": "a"})"});
  expect_error("", "");
  EXPECT_NE(outcome(""), "");
  expect_error(std::string(100000, '['), "it must be an object");
  expect_error(R"({"program": )" + std::string(1000000, '['), "program");
  expect_error(R"({"x-": )" + std::string(1000000, '['), "nested deeper");
  expect_error(R"({"format": )" + std::string(3 << 20, '9') + "}", "longer than 1 MiB");
  expect_error(R"({"format": 1e999})", "format");
  expect_error(std::string(3 << 20, ' ') + good, "longer than 1 MiB");
  expect_error(R"({"about": ")" + std::string(2 << 20, 'a') + "\"}", "about");
  expect_error(good.substr(0, good.size() - 1), "parse error");
  expect_error(good + "{}", "parse error");
  expect_error(R"({"about": "a)"
               "\xc3\x28"
               R"("})",
               "UTF-8");
  expect_error(R"({"about": "\ud800"})", "about");
  expect_error(R"({"about": "a\u0000b"})", "about");
  expect_error(R"({"program": [{"op": )" + std::string(30, '{'), "program[0]");
  const std::string zip = packed(good);
  EXPECT_EQ(outcome(zip), "");
  expect_error(zip.substr(0, zip.size() - 1), "gzip file ends too early");
  expect_error(zip.substr(0, 2), "gzip file ends too early");
  std::string damaged = zip;
  damaged[zip.size() / 2] ^= 1;
  EXPECT_NE(outcome(damaged), "");
  expect_error(zip + "junk", "gzip");
  expect_error("\x1f\x8b" + std::string(100, 'x'), "gzip");
}

TEST(ScenarioMistakes, of_packed_files_that_grow_are_found_early) {
  std::string elements = R"({"format": "weir.scenario", "version": 1, "buffers": [], "streams": [)";
  for (int i = 0; i < 400000; ++i)
    elements += (i == 0 ? "" : ",") + (R"({"name": "s)" + std::to_string(i) + R"(", "kind": "blocking"})");
  expect_error(packed(elements + "]}"), "more memory");
  std::string uses = R"({"op": "launch", "stream": "s", "uses": ["a")";
  for (int i = 0; i < 500000; ++i) uses += ",\"a\"";
  expect_error(packed(scenario({.program = uses + "]}"})), "more memory");
  expect_error(packed(R"({"about": ")" + std::string(100 << 20, ' ')), "longer than 1 MiB");
}

TEST(ScenarioMistakes, by_mutation_are_errors_or_other_scenarios) {
  std::vector<std::string> texts = {everything};
  for (const auto& one : cases()) texts.push_back(one.text);
  const char* const pieces[] = {"{",
                                "}",
                                "[",
                                "]",
                                ",",
                                ":",
                                "\"",
                                "null",
                                "-1",
                                "1e400",
                                "9223372036854775808",
                                "true",
                                "\"op\"",
                                "\"x-y\":",
                                "\\u0000",
                                "\xff",
                                "18446744073709551615",
                                "[[9,9]]",
                                "\"bytes\":4,",
                                "\"repeat\":[[2,4]],"};
  std::mt19937 random(2026);
  const auto below = [&](std::size_t n) { return random() % n; };
  int good = 0, bad = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = texts[static_cast<std::size_t>(round) % texts.size()];
    const bool zip = round % 5 == 4;
    if (zip) text = packed(text);
    for (std::size_t change = 0; change <= below(4) && !text.empty(); ++change) {
      const std::size_t at = below(text.size());
      switch (below(zip ? 3 : 6)) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text.erase(at, 1 + below(8)); break;
        case 2: text.resize(at + 1); break;
        case 3: text.insert(at, pieces[below(std::size(pieces))]); break;
        case 4: text.insert(at, text.substr(below(text.size()), below(60))); break;
        default: {  // a name, a number or a word for another
          const std::size_t from = text.find_first_of("\"0123456789", below(text.size()));
          const std::size_t to = text.find_first_of("\"0123456789", at);
          if (from == std::string::npos || to == std::string::npos) break;
          text.replace(to, 4, text.substr(from, 4));
        }
      }
    }
    if (outcome(text).empty()) {
      ++good;
      const std::string written = to_json(weir::parse_recording(text));
      EXPECT_EQ(to_json(weir::parse_recording(written)), written) << text;
    } else {
      ++bad;
    }
  }
  EXPECT_GT(good, 100);
  EXPECT_GT(bad, 10000);
}

}  // namespace
