// Wrong inputs: devices and peer access.
#include "wrong_inputs.hpp"

namespace weir_test {

using weir::Errc;

std::vector<WrongInput> wrong_devices() {
  Table table(__FILE__);
  struct Name {
    const char* entry;
    const char* name;
  };
  for (const Name& each :
       {Name{"an empty name", ""}, Name{"a name of no backend", "gpu"},
        Name{"a number beyond the last device", "cpu:99"}, Name{"a negative number", "cpu:-1"},
        Name{"a number with letters", "cpu:0x"}, Name{"a name in capitals", "CPU"}, Name{"a name with a space", " cpu"},
        Name{"a colon without a number", "cpu:"}, Name{"a number beyond all numbers", "cpu:99999999999999999999"}}) {
    table.add(each.entry, Errc::unknown_device, {"weir::device", std::string("'") + each.name + "'", "cpu"},
              [name = each.name](Room&) { (void)weir::device(name); });
  }
  table.add(
      "a GPU where there is none", Errc::unknown_device, {"weir::device", "'cuda:0'", weir::why_absent("cuda")},
      [](Room&) { (void)weir::device("cuda:0"); }, Needs::no_cuda);
  table.add("a scope of an unknown device", Errc::unknown_device, {"'abacus'"},
            [](Room&) { const weir::ScopedDevice scope("abacus"); });
  table.add("peer access of a device to itself", Errc::peer_unsupported, {"weir::enable_peer_access"},
            [](Room& room) { weir::enable_peer_access(room.device, room.device); });
  table.add("ending peer access of a device to itself", Errc::peer_not_enabled, {"weir::disable_peer_access"},
            [](Room& room) { weir::disable_peer_access(room.device, room.device); });
  table.add(
      "ending peer access that was not enabled", Errc::peer_not_enabled, {"weir::disable_peer_access"},
      [](Room& room) { weir::disable_peer_access(room.device, room.other); }, Needs::two_devices);
  table.add(
      "peer access twice", Errc::peer_already_enabled, {"weir::enable_peer_access"},
      [](Room& room) {
        weir::enable_peer_access(room.device, room.other);
        try {
          weir::enable_peer_access(room.device, room.other);
        } catch (...) {
          weir::disable_peer_access(room.device, room.other);
          throw;
        }
      },
      Needs::two_devices);
  return table.take();
}

}  // namespace weir_test
