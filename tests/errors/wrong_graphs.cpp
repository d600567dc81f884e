// Wrong inputs: captures that are begun, joined, disturbed and ended wrongly; graphs, nodes, builders, updates and files.
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include <unistd.h>

#include "wrong_inputs.hpp"

namespace weir_test {

using weir::Errc;

namespace {

weir::Array<std::int32_t> flag(Room& room) {
  auto value = weir::full<std::int32_t>(room.stream, 1, 1);
  room.stream.synchronize();
  return value;
}

void add_capture_calls(Table& table) {
  const auto add = [&](std::string name, Errc code, std::vector<std::string> words, std::function<void(Room&)> call) {
    table.add(std::move(name), code, std::move(words), std::move(call), Needs::graphs);
  };
  add("capture the legacy stream", Errc::capture_unsupported, {"weir::capture_begin", "legacy"},
      [](Room& room) { weir::capture_begin(weir::legacy_stream(room.device)); });
  add("capture a stream that captures", Errc::capture_unsupported, {"weir::capture_begin", "'worker'", "nest"},
      [](Room& room) {
        const weir::ScopedCapture scope(room.stream);
        weir::capture_begin(room.stream);
      });
  add("end a capture that never began", Errc::not_capturing, {"weir::capture_end", "'worker'"},
      [](Room& room) { (void)weir::capture_end(room.stream); });
  add("end a capture twice", Errc::not_capturing, {"weir::capture_end", "'worker'"}, [](Room& room) {
    weir::capture_begin(room.stream);
    (void)weir::capture_end(room.stream);
    (void)weir::capture_end(room.stream);
  });
  add("end a capture on a stream that joined", Errc::capture_unmatched, {"weir::capture_end", "'fork'", "'worker'"},
      [](Room& room) {
        const weir::Stream fork(room.device, {.name = "fork"});
        const weir::ScopedCapture scope(room.stream);
        fork.wait(room.stream);
        (void)weir::capture_end(fork);
      });
  add("end a capture with a stream not joined back", Errc::capture_unjoined, {"weir::capture_end", "'fork'"},
      [](Room& room) {
        const weir::Stream fork(room.device, {.name = "fork"});
        (void)weir::capture(room.stream, [&] {
          fork.wait(room.stream);
          weir::launch(fork, 1, DoNothing{});
        });
      });
  add("end a capture of another thread", Errc::capture_wrong_thread, {"weir::capture_end", "'worker'"}, [](Room& room) {
    std::exception_ptr thrown;
    weir::capture_begin(room.stream);
    std::thread([&] {
      try {
        (void)weir::capture_end(room.stream);
      } catch (...) {
        thrown = std::current_exception();
      }
    }).join();
    if (thrown) std::rethrow_exception(thrown);
  });
  add("a capture whose stream is destroyed", Errc::invalid_handle, {"weir::capture_end", "stream"}, [](Room& room) {
    std::optional<weir::Stream> stream(room.device);
    weir::ScopedCapture scope(*stream);
    stream.reset();
    (void)scope.finish();
  });
  for (const auto& [name, stream] : broken_streams()) {
    add("begin a capture on " + name, Errc::invalid_handle, {"weir::capture_begin", "stream"},
        [stream = stream](Room& room) { weir::capture_begin(stream(room)); });
    add("end a capture on " + name, Errc::invalid_handle, {"weir::capture_end", "stream"},
        [stream = stream](Room& room) { (void)weir::capture_end(stream(room)); });
    add("capture a block on " + name, Errc::invalid_handle, {"weir::capture_begin", "stream"},
        [stream = stream](Room& room) { const weir::ScopedCapture scope(stream(room)); });
    add("is_capturing of " + name, Errc::invalid_handle, {"weir::is_capturing", "stream"},
        [stream = stream](Room& room) { (void)weir::is_capturing(stream(room)); });
    add("launch a graph on " + name, Errc::invalid_handle, {"weir::Graph::launch", "stream"},
        [stream = stream](Room& room) {
          const weir::Graph graph = weir::capture(weir::get_stream(room.device), [] {});
          graph.launch(stream(room));
        });
  }
}

/// What is an error while the room's stream, a blocking one, captures.
void add_offences(Table& table) {
  const auto add = [&](std::string name, Errc code, std::vector<std::string> words, std::function<void(Room&)> call) {
    table.add(
        std::move(name) + " while capturing", code, std::move(words),
        [call = std::move(call)](Room& room) {
          weir::Event before(room.device);
          const weir::ScopedCapture scope(room.stream);
          call(room);
        },
        Needs::graphs);
  };
  add("synchronize", Errc::capture_unsupported, {"weir::Stream::synchronize", "'worker'"},
      [](Room& room) { room.stream.synchronize(); });
  add("done", Errc::capture_unsupported, {"weir::Stream::done", "'worker'"},
      [](Room& room) { (void)room.stream.done(); });
  add("synchronize the device", Errc::capture_unsupported, {"weir::Device::synchronize", "device", "'worker'"},
      [](Room& room) { room.device.synchronize(); });
  add("synchronize_stream", Errc::capture_unsupported, {"weir::synchronize_stream: ", "'worker'"},
      [](Room& room) { weir::synchronize_stream(room.stream); });
  add("synchronize_device", Errc::capture_unsupported, {"weir::synchronize_device: ", "'worker'"},
      [](Room& room) { weir::synchronize_device(room.device); });
  add("synchronize everything", Errc::capture_unsupported, {"weir::synchronize", "'worker'"},
      [](Room&) { weir::synchronize(); });
  add("synchronize another stream", Errc::capture_unsupported, {"weir::Stream::synchronize", "stream"},
      [](Room& room) { weir::get_stream(room.other).synchronize(); });
  add("synchronize a captured event", Errc::captured_event, {"weir::Event::synchronize", "event"},
      [](Room& room) { room.stream.record().synchronize(); });
  add("ask for a captured event", Errc::captured_event, {"weir::Event::done", "event"},
      [](Room& room) { (void)room.stream.record().done(); });
  add("to_host", Errc::capture_unsupported, {"weir::Array::to_host", "array"},
      [](Room& room) { (void)room.a.to_host(); });
  add("pin memory", Errc::capture_unsupported, {"weir::pin"},
      [](Room& room) { weir::pin(room.vector.data(), room.vector.size()); });
  add("make pinned memory", Errc::capture_unsupported, {"weir::zeros"},
      [](Room&) { (void)weir::zeros<int>(weir::pinned, 10); });
  add("a launch on the legacy stream", Errc::capture_implicit, {"weir::launch", "legacy", "'worker'"},
      [](Room& room) { weir::launch(weir::legacy_stream(room.device), 1, DoNothing{}); });
  add("a copy on the legacy stream", Errc::capture_implicit, {"weir::copy", "legacy", "'worker'"},
      [](Room& room) { weir::copy(weir::legacy_stream(room.device), room.b, room.a); });
  add("a record on the legacy stream", Errc::capture_implicit, {"weir::Stream::record", "legacy", "'worker'"},
      [](Room& room) { (void)weir::legacy_stream(room.device).record(); });
  add("ask whether the legacy stream captures", Errc::capture_implicit, {"weir::is_capturing", "legacy"},
      [](Room& room) {
        try {
          (void)weir::is_capturing(weir::legacy_stream(room.device));
        } catch (const weir::Error&) {
          EXPECT_TRUE(weir::is_capturing(room.stream));
          EXPECT_TRUE(weir::capture_info(room.stream)->valid) << "the capture goes on (R125)";
          throw;
        }
      });
  add("ask about the legacy stream's capture", Errc::capture_implicit, {"weir::capture_info", "legacy"},
      [](Room& room) { (void)weir::capture_info(weir::legacy_stream(room.device)); });
  add("the legacy stream joins", Errc::capture_implicit, {"weir::Stream::wait", "legacy"},
      [](Room& room) { weir::legacy_stream(room.device).wait(room.stream.record()); });
  add("a wait for an event from outside", Errc::capture_isolation, {"weir::Stream::wait", "'worker'", "outside"},
      [](Room& room) {
        const weir::Stream other(room.device);
        room.stream.wait(other.record());
      });
  add("a wait for a stream outside", Errc::capture_isolation, {"weir::Stream::wait", "'worker'", "outside"},
      [](Room& room) {
        const weir::Stream other(room.device);
        weir::launch(other, 1, DoNothing{});
        room.stream.wait(other);
      });
  add("a wait for another capture", Errc::capture_merge, {"weir::Stream::wait", "'other'", "both are discarded"},
      [](Room& room) {
        const weir::Stream other(room.device, {.name = "other"});
        const weir::ScopedCapture second(other);
        other.wait(room.stream.record());
      });
  add("a launch after an error", Errc::capture_invalidated, {"weir::launch", "'worker'", "weir::Stream::done"},
      [](Room& room) {
        EXPECT_TRUE(fails_with(Errc::capture_unsupported, [&] { (void)room.stream.done(); }));
        weir::launch(room.stream, 1, DoNothing{});
      });
  add("the end after an error", Errc::capture_invalidated, {"weir::capture_end", "'worker'", "weir::Stream::done"},
      [](Room& room) {
        EXPECT_TRUE(fails_with(Errc::capture_unsupported, [&] { (void)room.stream.done(); }));
        (void)weir::capture_end(room.stream);
      });
  add("free what was made before", Errc::invalid_value, {"weir::Array::free", "array", "outside"},
      [](Room& room) { room.a.free(room.stream); });
  add("free pool memory made before", Errc::invalid_value, {"weir::Pool::free", "'worker'", "outside"},
      [](Room& room) { room.pool.free(room.stream, room.a.data()); });
  add("free twice", Errc::already_freed, {"weir::Array::free", "array"}, [](Room& room) {
    auto scratch = weir::zeros<int>(room.stream, 10);
    scratch.free(room.stream);
    scratch.free(room.stream);
  });
}

void add_conditions(Table& table) {
  const auto add = [&](std::string name, Errc code, std::vector<std::string> words, std::function<void(Room&)> call) {
    table.add(std::move(name), code, std::move(words), std::move(call), Needs::graphs);
  };
  add("capture_if without a capture", Errc::not_capturing, {"weir::capture_if", "'worker'"},
      [](Room& room) { weir::capture_if(room.stream, flag(room), [] {}); });
  add("capture_while without a capture", Errc::not_capturing, {"weir::capture_while", "'worker'"},
      [](Room& room) { weir::capture_while(room.stream, flag(room), [] {}); });
  add("capture_switch without a capture", Errc::not_capturing, {"weir::capture_switch", "'worker'"},
      [](Room& room) { weir::capture_switch(room.stream, flag(room), [] {}); });
  add("a body with a stream not joined back", Errc::capture_unjoined, {"weir::capture_if", "'fork'"}, [](Room& room) {
    const auto on = flag(room);
    const weir::Stream fork(room.device, {.name = "fork"});
    (void)weir::capture(room.stream, [&] {
      weir::capture_if(room.stream, on, [&] {
        fork.wait(room.stream.record());
        weir::launch(fork, 1, DoNothing{});
      });
    });
  });
  add("a stream in a body that it did not join", Errc::capture_isolation, {"weir::launch", "'fork'"}, [](Room& room) {
    const auto on = flag(room);
    const weir::Stream fork(room.device, {.name = "fork"});
    (void)weir::capture(room.stream, [&] {
      fork.wait(room.stream);
      weir::capture_if(room.stream, on, [&] { weir::launch(fork, 1, DoNothing{}); });
    });
  });
}

void add_graphs(Table& table) {
  const auto add = [&](std::string name, Errc code, std::vector<std::string> words, std::function<void(Room&)> call) {
    table.add(std::move(name), code, std::move(words), std::move(call), Needs::graphs);
  };
  struct Use {
    const char* name;
    std::function<void(weir::Graph&, Room&)> call;
  };
  static const std::vector<Use> uses = {
      {"launch", [](weir::Graph& graph, Room& room) { graph.launch(room.stream); }},
      {"launch", [](weir::Graph& graph, Room&) { graph.launch(); }},
      {"nodes", [](weir::Graph& graph, Room&) { (void)graph.nodes(); }},
      {"size", [](weir::Graph& graph, Room&) { (void)graph.size(); }},
      {"device", [](weir::Graph& graph, Room&) { (void)graph.device(); }},
      {"find", [](weir::Graph& graph, Room&) { (void)graph.find("fill"); }},
      {"enable", [](weir::Graph& graph, Room&) { graph.enable({}); }},
      {"resize", [](weir::Graph& graph, Room&) { graph.resize({}, 5); }},
      {"update_fill", [](weir::Graph& graph, Room& room) { graph.update_fill({}, room.a, 1); }},
  };
  for (std::size_t i = 0; i < uses.size(); ++i) {
    add(std::string(uses[i].name) + (i == 1 ? " without a stream" : "") + " of a graph moved from",
        Errc::invalid_handle, {std::string("weir::Graph::") + uses[i].name, "graph", "moved from"}, [i](Room& room) {
          weir::Graph graph = weir::capture(room.stream, [] {});
          uses[i].call(moved_from(graph), room);
        });
  }
  add("a name that no node has", Errc::invalid_value, {"weir::Graph::find", "'saxpy'"}, [](Room& room) {
    const weir::Graph graph = weir::capture(room.stream, [] {});
    (void)graph.find("saxpy");
  });
  add("a node of another graph", Errc::invalid_handle, {"weir::Graph::disable", "node", "another graph"},
      [](Room& room) {
        weir::Graph graph = weir::capture(room.stream, [&] { weir::fill(room.stream, room.b, 1); });
        const weir::Graph other = weir::capture(room.stream, [&] { weir::fill(room.stream, room.b, 1); });
        graph.disable(other.nodes().at(0).node);
      });
  add("no node", Errc::invalid_handle, {"weir::Graph::node", "it is no node"}, [](Room& room) {
    const weir::Graph graph = weir::capture(room.stream, [&] { weir::fill(room.stream, room.b, 1); });
    (void)graph.node({});
  });
  add("disable a child graph", Errc::not_supported, {"weir::Graph::disable", "node 'graph'"}, [](Room& room) {
    const weir::Graph inner = weir::capture(room.stream, [&] { weir::fill(room.stream, room.b, 1); });
    weir::Graph graph = weir::capture(room.stream, [&] { inner.launch(room.stream); });
    graph.disable(graph.find("graph"));
  });
}

/// A graph of a named launch and a fill.
weir::Graph small_graph(Room& room) {
  return weir::capture(room.stream, [&] {
    weir::launch(room.stream, weir::Extent{.size = 10, .name = "add"}, AddOne{}, weir::inout(room.a));
    weir::fill(room.stream, room.b, 2);
  });
}

void add_updates(Table& table) {
  const auto add = [&](std::string name, Errc code, std::vector<std::string> words,
                       std::function<void(Room&, weir::Graph&)> call) {
    table.add(
        std::move(name), code, std::move(words),
        [call = std::move(call)](Room& room) {
          weir::Graph graph = small_graph(room);
          call(room, graph);
        },
        Needs::graphs);
  };
  add("update a fill as a launch", Errc::invalid_value, {"weir::Graph::update", "node 'fill'", "not launch"},
      [](Room& room, weir::Graph& graph) { graph.update(graph.find("fill"), AddOne{}, weir::inout(room.a)); });
  add("update a launch as a copy", Errc::invalid_value, {"weir::Graph::update_copy", "node 'add'", "not copy"},
      [](Room& room, weir::Graph& graph) { graph.update_copy(graph.find("add"), room.a, room.b); });
  add("update a launch as a host function", Errc::invalid_value, {"weir::Graph::update_host_call", "node 'add'"},
      [](Room&, weir::Graph& graph) { graph.update_host_call(graph.find("add"), [] {}); });
  add("update with a freed array", Errc::already_freed, {"weir::Graph::update: ", "freed"},
      [](Room& room, weir::Graph& graph) {
        auto gone = weir::zeros<int>(room.stream, 10);
        gone.free(room.stream);
        graph.update(graph.find("add"), AddOne{}, weir::inout(gone));
      });
  add("update a launch as a fill", Errc::invalid_value, {"weir::Graph::update_fill", "node 'add'"},
      [](Room& room, weir::Graph& graph) { graph.update_fill(graph.find("add"), room.b, 1); });
  add("update to nothing", Errc::invalid_value, {"weir::Graph::update", "node 'add'", "disable"},
      [](Room& room, weir::Graph& graph) {
        graph.update(graph.find("add"), std::size_t{0}, AddOne{}, weir::inout(room.a));
      });
  add("update a fill with nothing", Errc::invalid_value, {"weir::Graph::update_fill", "node 'fill'", "disable"},
      [](Room& room, weir::Graph& graph) { graph.update_fill(graph.find("fill"), room.b.slice(0, 0), 1); });
  add("resize to another rank", Errc::wrong_shape, {"weir::Graph::resize", "extent [2, 5]"},
      [](Room&, weir::Graph& graph) {
        graph.resize(graph.find("add"), {2, 5});
      });
  add("update a fill as a launch over blocks", Errc::invalid_value, {"weir::Graph::update", "node 'fill'"},
      [](Room&, weir::Graph& graph) { graph.update(graph.find("fill"), DoNothingInBlocks{}); });
  add("update a launch with a kernel for blocks", Errc::invalid_value, {"weir::Graph::update", "node 'add'", "blocks"},
      [](Room&, weir::Graph& graph) { graph.update(graph.find("add"), DoNothingInBlocks{}); });
  add("update a launch with no blocks", Errc::invalid_value, {"weir::Graph::update: ", "0 blocks"},
      [](Room&, weir::Graph& graph) {
        graph.update(graph.find("add"), {.blocks = 0, .threads = 1}, DoNothingInBlocks{});
      });
  add("update a copy with other sizes", Errc::wrong_shape, {"weir::Graph::update_copy: ", "[10]", "[5]"},
      [](Room& room, weir::Graph&) {
        weir::GraphBuilder builder(room.device);
        const weir::Node node = builder.copy(room.a, room.b);
        builder.build().update_copy(node, room.a, room.b.slice(0, 5));
      });
  add("update a fill of no memory", Errc::null_view, {"weir::Graph::update_fill: "},
      [](Room&, weir::Graph& graph) { graph.update_fill(graph.find("fill"), weir::View<int>(nullptr, 3), 1); });
  add("resize a fill", Errc::invalid_value, {"weir::Graph::resize", "node 'fill'"},
      [](Room&, weir::Graph& graph) { graph.resize(graph.find("fill"), 5); });
  table.add(
      "update another kernel's arguments", Errc::invalid_value, {"weir::Graph::update", "pass the kernel"},
      [](Room& room) {
        weir::GraphBuilder builder(room.device);
        const auto node = builder.launch(10, AddOne{}, weir::inout(room.a));
        weir::Graph graph = builder.build();
        graph.update(node, LookAt{}, weir::in(room.a));
        graph.update(node, weir::inout(room.a));
      },
      Needs::graphs);
}

void add_builders(Table& table) {
  const auto add = [&](std::string name, Errc code, std::vector<std::string> words,
                       std::function<void(Room&, weir::GraphBuilder&)> call) {
    table.add(
        std::move(name), code, std::move(words),
        [call = std::move(call)](Room& room) {
          weir::GraphBuilder builder(room.device);
          call(room, builder);
        },
        Needs::graphs);
  };
  add("a cycle of nodes", Errc::graph_cycle,
      {"weir::GraphBuilder::depends", "node 0 'first'", "node 0 'first' -> node 1 'empty' -> node 2 'last' -> node 0"},
      [](Room&, weir::GraphBuilder& builder) {
        const weir::Node first = builder.launch(weir::Extent{.size = 1, .name = "first"}, DoNothing{});
        const weir::Node second = builder.empty();
        const weir::Node last = builder.launch(weir::Extent{.size = 1, .name = "last"}, DoNothing{});
        builder.depends(second, first);
        builder.depends(last, second);
        builder.depends(first, last);
      });
  add("a node that waits for itself", Errc::graph_cycle, {"weir::GraphBuilder::depends", "node 0"},
      [](Room&, weir::GraphBuilder& builder) {
        const weir::Node node = builder.empty();
        builder.depends(node, node);
      });
  add("a node of another builder", Errc::invalid_handle, {"weir::GraphBuilder::depends", "node", "another builder"},
      [](Room& room, weir::GraphBuilder& builder) {
        weir::GraphBuilder other(room.device);
        builder.depends(builder.empty(), other.empty());
      });
  add("a dependency on no node", Errc::invalid_handle, {"weir::GraphBuilder::depends", "it is no node"},
      [](Room&, weir::GraphBuilder& builder) { builder.depends(builder.empty(), weir::Node()); });
  add("a dependency into a body", Errc::invalid_value, {"weir::GraphBuilder::depends", "not in the same body"},
      [](Room& room, weir::GraphBuilder& builder) {
        weir::Node inside;
        const weir::Node before = builder.empty();
        builder.if_(flag(room), [&] { inside = builder.empty(); });
        builder.depends(inside, before);
      });
  add("build with a builder moved from", Errc::invalid_handle, {"weir::GraphBuilder::build: ", "builder", "moved from"},
      [](Room&, weir::GraphBuilder& builder) { (void)moved_from(builder).build(); });
  add("a node of a builder moved from", Errc::invalid_handle, {"weir::GraphBuilder::empty: ", "builder", "moved from"},
      [](Room&, weir::GraphBuilder& builder) { moved_from(builder).empty(); });
  add("a launch with a freed array in a graph", Errc::already_freed, {"weir::GraphBuilder::launch: ", "freed"},
      [](Room& room, weir::GraphBuilder& builder) {
        auto gone = weir::zeros<int>(room.stream, 10);
        gone.free(room.stream);
        builder.launch(10, AddOne{}, weir::inout(gone));
      });
  add("a copy of other sizes in a graph", Errc::wrong_shape, {"weir::GraphBuilder::copy: ", "[10]", "[5]"},
      [](Room& room, weir::GraphBuilder& builder) { builder.copy(room.a, room.b.slice(0, 5)); });
  add("free what the builder did not allocate", Errc::invalid_value, {"weir::GraphBuilder::free: ", "array"},
      [](Room& room, weir::GraphBuilder& builder) { builder.free(room.a); });
  add("a launch over no blocks in a graph", Errc::invalid_value, {"weir::GraphBuilder::launch_blocks: ", "0 blocks"},
      [](Room&, weir::GraphBuilder& builder) {
        builder.launch_blocks({.blocks = 0, .threads = 1}, DoNothingInBlocks{});
      });
  add("a fill of nothing but a view in a graph", Errc::null_view, {"weir::GraphBuilder::fill: "},
      [](Room&, weir::GraphBuilder& builder) { builder.fill(weir::View<int>(nullptr, 3), 1); });
  add("a host function of none in a graph", Errc::invalid_value, {"weir::GraphBuilder::host_call: ", "function"},
      [](Room&, weir::GraphBuilder& builder) { builder.host_call(static_cast<void (*)()>(nullptr)); });
  add("a sum to nothing in a graph", Errc::wrong_shape, {"weir::GraphBuilder::reduce: "},
      [](Room& room, weir::GraphBuilder& builder) { builder.reduce(room.a, room.b.slice(0, 0)); });
  add("a scan to another size in a graph", Errc::wrong_shape, {"weir::GraphBuilder::inclusive_scan: "},
      [](Room& room, weir::GraphBuilder& builder) { builder.inclusive_scan(room.a, room.b.slice(0, 5)); });
  add("a transform to another size in a graph", Errc::wrong_shape, {"weir::GraphBuilder::transform: "},
      [](Room& room, weir::GraphBuilder& builder) { builder.transform(room.a, room.b.slice(0, 5), Same{}); });
  add("an array too large for a graph", Errc::size_overflow, {"weir::GraphBuilder::allocate: "},
      [](Room&, weir::GraphBuilder& builder) { (void)builder.allocate<int>(-1); });
  add("a record of no event in a graph", Errc::invalid_handle, {"weir::GraphBuilder::record: ", "event"},
      [](Room&, weir::GraphBuilder& builder) { builder.record(weir::EventRef()); });
  add("a wait for no event in a graph", Errc::invalid_handle, {"weir::GraphBuilder::wait: ", "event"},
      [](Room&, weir::GraphBuilder& builder) { builder.wait(weir::EventRef()); });
  add("a condition without an element", Errc::wrong_shape, {"weir::GraphBuilder::while_: ", "no element"},
      [](Room& room, weir::GraphBuilder& builder) {
        auto nothing = weir::empty<std::int32_t>(room.device, 0);
        builder.while_(nothing, [] {});
      });
  add("a mistake in a body of the user's own", Errc::wrong_shape, {"weir::copy: "},
      [](Room& room, weir::GraphBuilder& builder) {
        builder.capture([&](weir::StreamRef s) { weir::copy(s, room.a, room.b.slice(0, 5)); });
      });
  add("a child graph moved from", Errc::invalid_handle, {"weir::GraphBuilder::graph: ", "graph"},
      [](Room&, weir::GraphBuilder& builder) { builder.graph(weir::Graph()); });
}

/// A path that is removed again.
struct TemporaryPath {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("wrong_graph." + std::to_string(getpid()));
  ~TemporaryPath() { std::filesystem::remove(path); }
};

void add_files(Table& table) {
  const auto add = [&](std::string name, Errc code, std::vector<std::string> words, std::function<void(Room&)> call) {
    table.add(std::move(name), code, std::move(words), std::move(call), Needs::graphs);
  };
  add("save where nothing can be", Errc::invalid_value, {"weir::save", "/nowhere/at.all"}, [](Room& room) {
    weir::save(weir::capture(room.stream, [&] { weir::fill(room.stream, room.b, 2); }), "/nowhere/at.all");
  });
  add("save a host function", Errc::not_supported, {"weir::save", "host_call"}, [](Room& room) {
    const TemporaryPath file;
    weir::save(weir::capture(room.stream, [&] { weir::host_call(room.stream, [] {}); }), file.path);
  });
  add("save an unregistered kernel", Errc::not_supported, {"weir::save", "AddOne", "register_kernel"}, [](Room& room) {
    const TemporaryPath file;
    weir::save(weir::capture(room.stream, [&] { weir::launch(room.stream, 10, AddOne{}, weir::inout(room.a)); }),
               file.path);
  });
  add("save a name for a foreign array", Errc::invalid_value, {"weir::save", "'other'"}, [](Room& room) {
    const TemporaryPath file;
    weir::save(weir::capture(room.stream, [&] { weir::fill(room.stream, room.b, 2); }), file.path, {{"other", room.a}});
  });
  add("save a graph moved from", Errc::invalid_handle, {"weir::save", "graph"}, [](Room&) {
    const TemporaryPath file;
    weir::save(weir::Graph(), file.path);
  });
  add("load what is not there", Errc::invalid_value, {"weir::load_graph", "/nowhere/at.all"},
      [](Room& room) { (void)weir::load_graph("/nowhere/at.all", room.device); });
  add("load a folder", Errc::invalid_value, {"weir::load_graph", "cannot be read"},
      [](Room& room) { (void)weir::load_graph(std::filesystem::temp_directory_path(), room.device); });
  add("load what is no graph", Errc::not_a_graph_file, {"weir::load_graph", "wrong_graph."}, [](Room& room) {
    const TemporaryPath file;
    std::ofstream(file.path) << "digraph { a -> b }, and more than a header's bytes of it";
    (void)weir::load_graph(file.path, room.device);
  });
  add("look at what is no graph", Errc::not_a_graph_file, {"weir::read_graph_nodes", "wrong_graph."}, [](Room&) {
    const TemporaryPath file;
    std::ofstream(file.path) << "";
    (void)weir::read_graph_nodes(file.path);
  });
  add("an array that a file does not name", Errc::invalid_value, {"weir::LoadedGraph::array", "'y'"}, [](Room& room) {
    const TemporaryPath file;
    weir::save(weir::capture(room.stream, [&] { weir::fill(room.stream, room.b, 2); }), file.path, {{"x", room.b}});
    (void)weir::load_graph(file.path, room.device).array<int>("y");
  });
  add("an array of a file with other elements", Errc::invalid_value, {"weir::LoadedGraph::array", "'x'"},
      [](Room& room) {
        const TemporaryPath file;
        weir::save(weir::capture(room.stream, [&] { weir::fill(room.stream, room.b, 2); }), file.path, {{"x", room.b}});
        (void)weir::load_graph(file.path, room.device).array<double>("x");
      });
}

}  // namespace

std::vector<WrongInput> wrong_graphs() {
  Table table(__FILE__);
  add_capture_calls(table);
  add_offences(table);
  add_conditions(table);
  add_graphs(table);
  add_updates(table);
  add_builders(table);
  add_files(table);
  return table.take();
}

}  // namespace weir_test
