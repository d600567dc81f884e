// A scenario with every op of commands and nodes, and every member that one may have.
#pragma once

namespace recording_test {

inline constexpr const char* everything =
    R"({"x-of": {"any": ["thing", null, 1e9]}, "format": "weir.scenario", "version": 1, "name": "all \"of\" it", "about": "\u00e4\n\ud83d\ude00",
"devices": [{"name": "dev0", "profile": "h200"}, {"name": "dev1", "x-note": 1}], "threads": ["T1", "T2"],
"streams": [{"name": "s", "kind": "non_blocking", "priority": -2}, {"name": "L", "device": "dev1", "kind": "legacy"},
  {"name": "P", "kind": "per_thread", "thread": "T2"}, {"name": "n", "device": "dev0", "kind": "blocking", "later": true}],
"events": [{"name": "e"}, {"name": "t", "timed": true, "device": "dev1"}, {"name": "f", "later": true}],
"buffers": [{"name": "a", "kind": "device", "bytes": 4096, "device": "dev0", "home": "s", "contents": "unwritten"},
  {"name": "b", "kind": "device", "bytes": 4096, "owner": "pool", "start": "later"},
  {"name": "g", "kind": "device", "bytes": 64, "start": "later"}, {"name": "c", "kind": "device", "bytes": 4},
  {"name": "u", "kind": "pinned", "bytes": 4096, "owner": "user"}, {"name": "h", "kind": "pinned", "bytes": 4096}],
"program": [
  {"id": "c0", "op": "launch", "stream": "s", "name": "Step<float>", "file": "a dir/sim.cpp", "line": 61, "uses": ["a",
     {"buffer": "h", "offset": 64, "bytes": 16, "repeat": [[4, 32], [2, 512], [2, 1024]], "access": "accumulate", "x-k": {}},
     {"buffer": "a", "bytes": 0, "access": "inout", "raw": true}],
     "cost": {"ns": 1234.5, "bytes": 7, "blocks": 8, "threads": 256, "block_ns": 0.25, "shared_bytes": 1024}},
  {"op": "alloc", "buffer": "b", "stream": "s"}, {"op": "copy", "stream": "s", "thread": "T2", "to": "b", "from": {"buffer": "u"}},
  {"op": "fill", "stream": "s", "to": {"buffer": "b", "bytes": 8}, "cost": {"ns": 5}}, {"op": "make", "stream": "n"},
  {"op": "make", "event": "f"}, {"op": "record", "stream": "s", "event": "f", "external": true},
  {"op": "wait", "stream": "n", "event": "f", "external": true}, {"op": "wait", "stream": "n", "for": "s"},
  {"op": "external", "stream": "n"}, {"op": "host_function", "stream": "n", "gives": ["h1", "h2"], "uses": [{"buffer": "u", "access": "out"}]},
  {"op": "take", "name": "h1", "thread": "T2"}, {"op": "give", "name": "h3"}, {"op": "work", "ns": 1500.5},
  {"op": "synchronize", "stream": "s"}, {"op": "synchronize", "event": "e"}, {"op": "synchronize", "device": "dev1"},
  {"op": "synchronize", "all": true}, {"op": "query", "stream": "s", "answer": true}, {"op": "query", "event": "e", "answer": false},
  {"op": "host_read", "uses": ["u"], "cost": {"ns": 3}}, {"op": "host_write", "uses": []},
  {"op": "host_open", "scope": "v", "use": {"buffer": "u", "access": "inout"}}, {"op": "host_close", "scope": "v"},
  {"op": "begin_capture", "stream": "s"}, {"id": "k0", "op": "launch", "stream": "s", "uses": ["a"]},
  {"op": "end_capture", "stream": "s", "graph": "captured"}, {"op": "update_node", "graph": "captured", "node": "k0", "uses": []},
  {"op": "build_graph", "graph": "built", "device": "dev0", "nodes": [
     {"name": "m", "op": "alloc", "buffer": "g", "file": "x", "line": 0},
     {"name": "k", "op": "launch", "after": ["m"], "uses": [{"buffer": "g", "access": "out"}], "cost": {"ns": 1}},
     {"name": "cp", "op": "copy", "after": ["m", "k"], "to": {"buffer": "a", "bytes": 64}, "from": "g"}, {"name": "fl", "op": "fill", "to": "a"},
     {"name": "ch", "op": "graph", "graph": "captured"}, {"name": "em", "op": "empty"}, {"name": "rc", "op": "record", "event": "e"},
     {"name": "wt", "op": "wait", "event": "e"}, {"name": "hf", "op": "host_function"}, {"name": "ex", "op": "external", "uses": ["a"]},
     {"name": "if", "op": "if", "condition": "c", "bodies": [[{"name": "x", "op": "empty"}], []]},
     {"name": "sw", "op": "switch", "condition": {"buffer": "c", "bytes": 4}, "bodies": [[], [], [{"name": "y", "op": "fill", "to": "a"}]]},
     {"name": "wh", "op": "while", "condition": "c", "bodies": [[{"name": "z", "op": "launch"}]]},
     {"name": "fr", "op": "free", "after": ["cp"], "buffer": "g"}]},
  {"op": "update_node", "graph": "built", "node": "cp", "to": {"buffer": "a", "bytes": 64}, "from": {"buffer": "h", "bytes": 64}},
  {"op": "update_node", "graph": "built", "node": "sw[2]/y", "to": "a"}, {"op": "update_node", "graph": "built", "node": "ch/k0", "uses": ["a"]},
  {"op": "enable_node", "graph": "built", "node": "wh[0]/z", "enabled": false}, {"op": "launch_graph", "graph": "built", "stream": "s"},
  {"op": "drop", "graph": "built"}, {"op": "drop", "stream": "n"}, {"op": "drop", "event": "f"}, {"op": "free", "buffer": "b", "stream": "s"},
  {"op": "free", "buffer": "u"}],
"x-host-work": [{"command": 33, "node": "hf", "ns": 2500.5}, {"command": 33, "node": "hf", "ns": 0}]})";

}  // namespace recording_test
