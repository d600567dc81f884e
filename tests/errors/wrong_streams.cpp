// Wrong inputs: streams that were moved from, destroyed or never made, and streams of other devices.
#include "wrong_inputs.hpp"

namespace weir_test {

using weir::Errc;

const std::vector<BrokenStream>& broken_streams() {
  static const std::vector<BrokenStream> all = {
      {"a stream moved from", [](Room& room) -> weir::StreamRef { return moved_from(room.stream); }},
      {"a destroyed stream", [](Room& room) { return room.ended_stream(); }},
      {"no stream", [](Room&) { return weir::StreamRef(); }},
  };
  return all;
}

namespace {

struct StreamUse {
  const char* name;
  const char* operation;
  std::function<void(Room&, weir::StreamRef)> call;
};

const std::vector<StreamUse>& stream_uses() {
  static const std::vector<StreamUse> all = {
      {"launch", "weir::launch", [](Room& r, weir::StreamRef s) { weir::launch(s, 10, AddOne{}, weir::inout(r.a)); }},
      {"launch without arrays", "weir::launch", [](Room&, weir::StreamRef s) { weir::launch(s, 1, DoNothing{}); }},
      {"launch_blocks", "weir::launch_blocks",
       [](Room&, weir::StreamRef s) { weir::launch_blocks(s, {.blocks = 1, .threads = 1}, DoNothingInBlocks{}); }},
      {"copy", "weir::copy", [](Room& r, weir::StreamRef s) { weir::copy(s, r.a, r.b); }},
      {"fill", "weir::fill", [](Room& r, weir::StreamRef s) { weir::fill(s, r.a, 7); }},
      {"zeros", "weir:", [](Room&, weir::StreamRef s) { (void)weir::zeros<int>(s, 10); }},
      {"clone", "weir:", [](Room& r, weir::StreamRef s) { (void)r.a.clone(s); }},
      {"host_call", "weir::host_call", [](Room&, weir::StreamRef s) { weir::host_call(s, [] {}); }},
      {"external", "weir::external", [](Room&, weir::StreamRef s) { weir::external(s, [](weir::NativeStream) {}); }},
      {"record", "record", [](Room& r, weir::StreamRef s) { s.record(weir::Event(r.device)); }},
      {"record a new event", "weir::", [](Room&, weir::StreamRef s) { (void)s.record(); }},
      {"wait for an event", "wait", [](Room& r, weir::StreamRef s) { s.wait(weir::Event(r.device)); }},
      {"wait for a stream", "wait", [](Room& r, weir::StreamRef s) { s.wait(weir::get_stream(r.device)); }},
      {"be waited for", "wait", [](Room& r, weir::StreamRef s) { weir::get_stream(r.device).wait(s); }},
      {"wait_stream", "weir::wait_stream: ", [](Room&, weir::StreamRef s) { weir::wait_stream(s); }},
      {"synchronize", "weir::Stream::synchronize: ", [](Room&, weir::StreamRef s) { s.synchronize(); }},
      {"synchronize_stream",
       "weir::synchronize_stream: ", [](Room&, weir::StreamRef s) { weir::synchronize_stream(s); }},
      {"done", "done", [](Room&, weir::StreamRef s) { (void)s.done(); }},
      {"priority", "priority", [](Room&, weir::StreamRef s) { (void)s.priority(); }},
      {"device", "device", [](Room&, weir::StreamRef s) { (void)s.device(); }},
      {"set_stream", "weir::set_stream", [](Room&, weir::StreamRef s) { weir::set_stream(s); }},
      {"ScopedStream", "weir::ScopedStream: ", [](Room&, weir::StreamRef s) { const weir::ScopedStream scope(s); }},
      {"AutoSynchronize", "weir::AutoSynchronize",
       [](Room&, weir::StreamRef s) { const weir::AutoSynchronize scope(s); }},
      {"ScopedTimer", "weir::ScopedTimer: ", [](Room&, weir::StreamRef s) { const weir::ScopedTimer timer(s); }},
      {"pool allocate", "weir::Pool::allocate", [](Room& r, weir::StreamRef s) { (void)r.pool.allocate(s, 100); }},
  };
  return all;
}

}  // namespace

std::vector<WrongInput> wrong_streams() {
  Table table(__FILE__);
  for (const BrokenStream& broken : broken_streams()) {
    for (const StreamUse& use : stream_uses()) {
      table.add(std::string(use.name) + " on " + broken.how, Errc::invalid_handle, {use.operation, "stream"},
                [&](Room& room) { use.call(room, broken.stream(room)); });
    }
  }
  table.add("a launch on a current stream that was destroyed", Errc::invalid_handle, {"weir::launch", "stream"},
            [](Room& room) {
              const weir::StreamRef before = weir::get_stream(room.device);
              {
                const weir::Stream current(room.device);
                weir::set_stream(current);
              }
              try {
                weir::launch(1, DoNothing{});
              } catch (...) {
                weir::set_stream(before);
                throw;
              }
            });
  table.add("free in the order of a destroyed stream", Errc::invalid_handle, {"weir::Array::free", "stream"},
            [](Room& room) { room.a.free(room.ended_stream()); });
  table.add(
      "set_stream with another device", Errc::wrong_device, {"weir::set_stream", "'worker'"},
      [](Room& room) { weir::set_stream(room.stream, room.other); }, Needs::two_devices);
  table.add(
      "a native stream where there are none", Errc::not_supported, {"weir::wrap_stream"},
      [](Room& room) { (void)weir::wrap_stream(room.device, &room); }, Needs::cpu);
  table.add(
      "a launch inside a kernel", Errc::not_permitted, {"weir::launch"},
      [](Room& room) {
        weir::launch(room.stream, 1,
                     weir::host_only([&room](std::size_t) { weir::launch(room.stream, 1, DoNothing{}); }));
        try {
          room.stream.synchronize();
        } catch (const weir::Error& error) {
          std::rethrow_exception(error.cause());
        }
      },
      Needs::cpu);
  table.add("synchronize inside a host function", Errc::not_permitted, {"weir::Stream::synchronize: "}, [](Room& room) {
    weir::host_call(room.stream, [&room] { room.stream.synchronize(); });
    try {
      room.stream.synchronize();
    } catch (const weir::Error& error) {
      std::rethrow_exception(error.cause());
    }
  });
  return table.take();
}

}  // namespace weir_test
