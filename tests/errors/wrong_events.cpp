// Wrong inputs: events that were moved from, destroyed, never recorded or not reached, and events of other devices.
#include "wrong_inputs.hpp"

namespace weir_test {

using weir::Errc;

std::vector<WrongInput> wrong_events() {
  Table table(__FILE__);
  table.add("record an event moved from", Errc::invalid_handle, {"record", "event"}, [](Room& room) {
    weir::Event event(room.device);
    room.stream.record(moved_from(event));
  });
  table.add("wait for an event moved from", Errc::invalid_handle, {"wait", "event"}, [](Room& room) {
    weir::Event event(room.device);
    room.stream.wait(moved_from(event));
  });
  table.add("synchronize an event moved from", Errc::invalid_handle, {"weir::Event::synchronize: event"},
            [](Room& room) {
              weir::Event event(room.device);
              moved_from(event).synchronize();
            });
  table.add("done of an event moved from", Errc::invalid_handle, {"done", "event"}, [](Room& room) {
    weir::TimedEvent event(room.device);
    (void)moved_from(event).done();
  });
  table.add("record a destroyed event", Errc::invalid_handle, {"record", "destroyed"},
            [](Room& room) { room.stream.record(room.ended_event()); });
  table.add("wait for a destroyed event", Errc::invalid_handle, {"wait", "destroyed"},
            [](Room& room) { room.stream.wait(room.ended_event()); });
  table.add("synchronize a destroyed event", Errc::invalid_handle, {"synchronize", "destroyed"},
            [](Room& room) { room.ended_event().synchronize(); });
  table.add("synchronize_event of a destroyed event", Errc::invalid_handle, {"weir::synchronize_event: ", "destroyed"},
            [](Room& room) { weir::synchronize_event(room.ended_event()); });
  table.add("done of a destroyed event", Errc::invalid_handle, {"done", "destroyed"},
            [](Room& room) { (void)room.ended_event().done(); });
  table.add("device of no event", Errc::invalid_handle, {"event"}, [](Room&) { (void)weir::EventRef().device(); });
  table.add("record_event of no event", Errc::invalid_handle, {"weir::record_event: "},
            [](Room&) { weir::record_event(weir::EventRef()); });
  table.add("wait_event of no event", Errc::invalid_handle, {"weir::wait_event: ", "event"},
            [](Room&) { weir::wait_event(weir::EventRef()); });
  table.add("elapsed from an event never recorded", Errc::invalid_handle, {"weir::elapsed", "event"}, [](Room& room) {
    const weir::TimedEvent start(room.device);
    const weir::TimedEvent end = room.stream.record_timed();
    end.synchronize();
    (void)weir::elapsed(start, end);
  });
  table.add("elapsed to an event never recorded", Errc::invalid_handle, {"weir::elapsed", "event"}, [](Room& room) {
    const weir::TimedEvent start = room.stream.record_timed();
    const weir::TimedEvent end(room.device);
    start.synchronize();
    (void)weir::elapsed(start, end);
  });
  table.add("elapsed from an event moved from", Errc::invalid_handle, {"weir::elapsed", "event"}, [](Room& room) {
    weir::TimedEvent start = room.stream.record_timed();
    const weir::TimedEvent end = room.stream.record_timed();
    end.synchronize();
    (void)weir::elapsed(moved_from(start), end);
  });
  // stream: (start)[hold]--(end)     asked while the gate is shut
  table.add("elapsed to an event not reached", Errc::not_ready, {"weir::elapsed"}, [](Room& room) {
    Gate gate;
    const weir::TimedEvent start = room.stream.record_timed();
    gate.hold(room.stream);
    const weir::TimedEvent end = room.stream.record_timed();
    (void)weir::elapsed(start, end);
  });
  table.add(
      "record on a stream of another device", Errc::wrong_device, {"record", "'worker'"},
      [](Room& room) { room.stream.record(weir::Event(room.other)); }, Needs::two_devices);
  table.add(
      "elapsed between two devices", Errc::wrong_device, {"weir::elapsed"},
      [](Room& room) {
        const weir::TimedEvent start = room.stream.record_timed();
        const weir::TimedEvent end = weir::get_stream(room.other).record_timed();
        start.synchronize();
        end.synchronize();
        (void)weir::elapsed(start, end);
      },
      Needs::two_devices);
  return table.take();
}

}  // namespace weir_test
