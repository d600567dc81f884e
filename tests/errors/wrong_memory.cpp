// Wrong inputs: pools and pinned memory (R99, R100, R105 to R107).
#include <limits>

#include "wrong_inputs.hpp"

namespace weir_test {

using weir::Errc;

namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

/// Frees memory wrongly, then rightly, and goes on with the error.
template <class Wrong>
void with_memory(Room& room, Wrong&& wrong) {
  void* const memory = room.pool.allocate(room.stream, 4096);
  try {
    wrong(static_cast<char*>(memory));
  } catch (...) {
    room.pool.free(room.stream, memory);
    throw;
  }
}

void add_pools(Table& table) {
  table.add("allocate from a pool moved from", Errc::invalid_handle, {"weir::Pool::allocate", "pool"},
            [](Room& room) { (void)moved_from(room.pool).allocate(room.stream, 10); });
  table.add("free to a pool moved from", Errc::invalid_handle, {"weir::Pool::free", "pool"},
            [](Room& room) { moved_from(room.pool).free(room.stream, &room); });
  table.add("trim a pool moved from", Errc::invalid_handle, {"trim", "pool"},
            [](Room& room) { moved_from(room.pool).trim(); });
  table.add("statistics of a pool moved from", Errc::invalid_handle, {"statistics", "pool"},
            [](Room& room) { (void)moved_from(room.pool).statistics(); });
  table.add("set a pool moved from", Errc::invalid_handle, {"weir::set_pool", "pool"},
            [](Room& room) { weir::set_pool(room.device, moved_from(room.pool)); });
  table.add("more than a pool's limit", Errc::out_of_memory, {"allocat", "67108864"},
            [](Room& room) { (void)room.pool.allocate(room.stream, 65 * mebibyte); });
  table.add("an array beyond a pool's limit", Errc::out_of_memory, {"weir"},
            [](Room& room) { (void)weir::empty<char>(room.stream, 65 * mebibyte, room.pool); });
  table.add("more than everything from a pool", Errc::out_of_memory, {"allocat", "67108864"},
            [](Room& room) { (void)room.pool.allocate(room.stream, std::numeric_limits<std::size_t>::max()); });
  table.add("a pool larger than its device", Errc::invalid_value, {"weir::Pool", "max_size"}, [](Room& room) {
    const weir::Pool pool(room.device, {.max_size = std::numeric_limits<std::size_t>::max()});
  });
  table.add(
      "allocate on a stream of another device", Errc::wrong_device, {"weir::Pool::allocate"},
      [](Room& room) { (void)room.pool.allocate(weir::get_stream(room.other), 10); }, Needs::two_devices);
  table.add(
      "a pool of another device for an array", Errc::wrong_device, {"pool"},
      [](Room& room) { (void)weir::empty<int>(room.other, 10, room.pool); }, Needs::two_devices);
  table.add(
      "set a pool of another device", Errc::wrong_device, {"weir::set_pool"},
      [](Room& room) { weir::set_pool(room.other, room.pool); }, Needs::two_devices);
}

void add_frees(Table& table) {
  table.add("free memory twice", Errc::already_freed, {"weir::Pool::free"}, [](Room& room) {
    void* const memory = room.pool.allocate(room.stream, 4096);
    room.pool.free(room.stream, memory);
    room.pool.free(room.stream, memory);
  });
  table.add("free memory twice with a wait between", Errc::already_freed, {"weir::Pool::free"}, [](Room& room) {
    void* const memory = room.pool.allocate(room.stream, 4096);
    room.pool.free(room.stream, memory);
    room.stream.synchronize();
    room.pool.free(room.stream, memory);
  });
  // stream: (allocate)[hold]--(free)(free)
  table.add("free memory twice while the first free is pending", Errc::already_freed, {"weir::Pool::free"},
            [](Room& room) {
              Gate gate;
              void* const memory = room.pool.allocate(room.stream, 4096);
              gate.hold(room.stream);
              room.pool.free(room.stream, memory);
              room.pool.free(room.stream, memory);
            });
  table.add("free the middle of memory", Errc::invalid_value, {"weir::Pool::free"},
            [](Room& room) { with_memory(room, [&](char* memory) { room.pool.free(room.stream, memory + 256); }); });
  table.add("free a local variable", Errc::invalid_value, {"weir::Pool::free"}, [](Room& room) {
    int local = 0;
    room.pool.free(room.stream, &local);
  });
  table.add("free pinned memory to a pool", Errc::invalid_value, {"weir::Pool::free"},
            [](Room& room) { room.pool.free(room.stream, room.pinned.data()); });
  table.add("free memory of another pool", Errc::invalid_value, {"weir::Pool::free"}, [](Room& room) {
    with_memory(room, [&](char* memory) { weir::default_pool(room.device).free(room.stream, memory); });
  });
  table.add("free on a destroyed stream", Errc::invalid_handle, {"weir::Pool::free", "stream"},
            [](Room& room) { with_memory(room, [&](char* memory) { room.pool.free(room.ended_stream(), memory); }); });
}

void add_pins(Table& table) {
  table.add("pin nothing", Errc::invalid_value, {"weir::pin", "null"}, [](Room&) { weir::pin(nullptr, 100); });
  table.add("pin no bytes", Errc::invalid_value, {"weir::pin", "0"},
            [](Room& room) { weir::pin(room.vector.data(), 0); });
  table.add("pin an empty vector", Errc::invalid_value, {"weir::pin"}, [](Room&) {
    std::vector<int> none;
    const weir::ScopedPin pin(none);
  });
  table.add("pin twice", Errc::already_pinned, {"weir::pin"}, [](Room& room) {
    const weir::ScopedPin pin(room.vector);
    weir::pin(room.vector.data(), 40);
  });
  table.add("pin in two scopes", Errc::already_pinned, {"weir::pin"}, [](Room& room) {
    const weir::ScopedPin pin(room.vector);
    const weir::ScopedPin again(room.vector);
  });
  table.add("pin a part again", Errc::already_pinned, {"weir::pin"}, [](Room& room) {
    const weir::ScopedPin pin(room.vector);
    weir::pin(room.vector.data() + 3, 4);
  });
  table.add("pin a range that wraps around", Errc::invalid_value, {"weir::pin"},
            [](Room& room) { weir::pin(room.vector.data(), std::numeric_limits<std::size_t>::max()); });
  table.add("pin a pinned array", Errc::invalid_value, {"weir::pin"},
            [](Room& room) { weir::pin(room.pinned.data(), 40); });
  table.add("unpin what was never pinned", Errc::not_pinned, {"weir::unpin"},
            [](Room& room) { weir::unpin(room.vector.data()); });
  table.add("unpin nothing", Errc::not_pinned, {"weir::unpin"}, [](Room&) { weir::unpin(nullptr); });
  table.add("unpin twice", Errc::not_pinned, {"weir::unpin"}, [](Room& room) {
    weir::pin(room.vector.data(), 40);
    weir::unpin(room.vector.data());
    weir::unpin(room.vector.data());
  });
  table.add("unpin from the middle", Errc::invalid_value, {"weir::unpin"}, [](Room& room) {
    const weir::ScopedPin pin(room.vector);
    weir::unpin(room.vector.data() + 1);
  });
  table.add("unpin a pinned array", Errc::invalid_value, {"weir::unpin"},
            [](Room& room) { weir::unpin(room.pinned.data()); });
}

}  // namespace

std::vector<WrongInput> wrong_memory() {
  Table table(__FILE__);
  add_pools(table);
  add_frees(table);
  add_pins(table);
  return table.take();
}

}  // namespace weir_test
