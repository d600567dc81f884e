// Wrong inputs: sizes, slices, shapes, arrays that were moved from or freed, and the host in device memory.
#include <limits>

#include "wrong_inputs.hpp"

namespace weir_test {

using weir::Errc;

namespace {

constexpr long long large = 1LL << 32;
constexpr long long tebibyte = 1LL << 40;

void add_sizes(Table& table) {
  table.add("a negative size", Errc::size_overflow, {"-1"},
            [](Room& room) { (void)weir::zeros<int>(room.stream, -1); });
  table.add("a negative size of host memory", Errc::size_overflow, {"-5"},
            [](Room&) { (void)weir::empty<int>(weir::host, -5); });
  table.add("a negative size of pinned memory", Errc::size_overflow, {"-5"},
            [](Room&) { (void)weir::empty<int>(weir::pinned, -5); });
  table.add("a negative dimension", Errc::size_overflow, {"[3, -2]"}, [](Room& room) {
    (void)weir::zeros<int>(room.stream, {3, -2});
  });
  table.add("a negative dimension beside an empty one", Errc::size_overflow, {"[0, -2]"}, [](Room& room) {
    (void)weir::zeros<int>(room.stream, {0, -2});
  });
  table.add("dimensions whose product overflows", Errc::size_overflow, {"[4294967296, 4294967296]"}, [](Room& room) {
    (void)weir::zeros<char>(room.stream, {large, large});
  });
  table.add("four dimensions whose product overflows to 0", Errc::size_overflow, {"65536"}, [](Room& room) {
    (void)weir::zeros<char>(room.stream, {65536, 65536, 65536, 65536});
  });
  table.add("elements whose bytes overflow", Errc::size_overflow, {"4611686018427387904"},
            [](Room& room) { (void)weir::empty<double>(room.stream, 1LL << 62); });
  table.add("elements on the host whose bytes overflow", Errc::size_overflow, {"4611686018427387904"},
            [](Room&) { (void)weir::empty<double>(weir::host, 1LL << 62); });
  table.add("more than the device has", Errc::out_of_memory, {"weir::empty"},
            [](Room& room) { (void)weir::empty<char>(room.stream, 64 * tebibyte); });
  table.add("more than the device has, filled", Errc::out_of_memory, {"weir::ones"},
            [](Room& room) { (void)weir::ones<char>(room.stream, 64 * tebibyte); });
  table.add("more pageable memory than there is", Errc::out_of_memory, {"host"},
            [](Room&) { (void)weir::empty<char>(weir::host, 64 * tebibyte); });
  table.add("more pinned memory than there is", Errc::out_of_memory, {"weir::empty", "pinned"},
            [](Room&) { (void)weir::empty<char>(weir::pinned, 64 * tebibyte); });
  table.add("almost everything that can be addressed", Errc::out_of_memory, {"weir"},
            [](Room& room) { (void)weir::empty<char>(room.stream, std::numeric_limits<std::ptrdiff_t>::max()); });
}

void add_shapes(Table& table) {
  table.add("a slice past the end", Errc::wrong_shape, {"slice", "5..11", "10"},
            [](Room& room) { (void)room.a.slice(5, 11); });
  table.add("a slice backwards", Errc::wrong_shape, {"slice", "7..3"}, [](Room& room) { (void)room.a.slice(7, 3); });
  table.add("a slice from before the start", Errc::wrong_shape, {"slice"},
            [](Room& room) { (void)room.a.slice(static_cast<std::size_t>(-1), 3); });
  table.add("a slice past the end of the second dimension", Errc::wrong_shape, {"slice", "0..5", "dimension 1"},
            [](Room& room) {
              (void)room.plane.slice({{0, 3}, {0, 5}});
            });
  table.add("one index into columns of two dimensions", Errc::wrong_shape, {"operator[]", "2 dimensions"}, [](Room&) {
    const auto plane = weir::empty<int>(weir::host, {3, 4});
    (void)plane.slice({{0, 3}, {0, 2}})[1];
  });
  table.add("a slice of more dimensions than there are", Errc::wrong_shape, {"slice", "dimension 1"}, [](Room& room) {
    (void)room.a.slice({{0, 3}, {0, 1}});
  });
  table.add("a slice of five dimensions", Errc::wrong_shape, {"slice"}, [](Room& room) {
    (void)weir::zeros<int>(room.stream, {1, 1, 1, 1}).slice({{0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}});
  });
  table.add("a step of 0", Errc::invalid_value, {"slice", "step"}, [](Room& room) {
    (void)room.a.slice({{0, 10, 0}});
  });
  table.add("a slice of a slice past its end", Errc::wrong_shape, {"slice", "0..4", "3"},
            [](Room& room) { (void)room.a.slice(0, 3).slice(0, 4); });
  table.add("a shape of another size", Errc::wrong_shape, {"reshape", "[3, 4]"}, [](Room& room) {
    (void)room.a.reshape({3, 4});
  });
  table.add("a shape with a negative dimension", Errc::size_overflow, {"reshape", "-5"}, [](Room& room) {
    (void)room.a.reshape({-2, -5});
  });
  table.add("a new shape of strided memory", Errc::wrong_shape, {"reshape", "contiguous"},
            [](Room& room) { (void)room.plane.transposed().reshape(12); });
  table.add("a view of another rank", Errc::wrong_shape, {"2 dimensions", "1 dimensions"},
            [](Room& room) { (void)room.plane.view<1>(); });
  table.add("a view as one of another rank", Errc::wrong_shape, {},
            [](Room& room) { (void)room.plane.view().as<3>(); });
  table.add("an implicit view of another rank", Errc::wrong_shape, {"weir::View", "2 dimensions"}, [](Room& room) {
    const weir::View<int, 3> view = room.plane.view();
    (void)view;
  });
  table.add("an implicit view of const of another rank", Errc::wrong_shape, {"weir::View"}, [](Room& room) {
    const weir::View<const int> view = room.plane.view();
    (void)view;
  });
}

void add_host_access(Table& table) {
  table.add("an element of device memory", Errc::wrong_memory, {"weir::Array", "device array"},
            [](Room& room) { (void)room.a[0]; });
  table.add("begin of device memory", Errc::wrong_memory, {"weir::Array"}, [](Room& room) { (void)room.a.begin(); });
  table.add("a loop over device memory", Errc::wrong_memory, {"weir::Array"}, [](Room& room) {
    for (int& element : room.a) element = 1;
  });
  table.add("a span of device memory", Errc::wrong_memory, {"weir::Array"}, [](Room& room) { (void)room.a.span(); });
  table.add("a host view of a slice of device memory", Errc::wrong_memory, {"weir::Array"},
            [](Room& room) { (void)room.a.slice(0, 3).host_view(); });
  table.add("one index of two dimensions", Errc::wrong_shape, {"weir::AnyView", "2 dimensions", "1 index"}, [](Room&) {
    const auto plane = weir::empty<int>(weir::host, {3, 4});
    (void)plane.host_view()(2);
  });
  table.add("one index in brackets of two dimensions", Errc::wrong_shape, {"weir::AnyView", "2 dimensions"}, [](Room&) {
    const auto plane = weir::empty<int>(weir::host, {3, 4});
    (void)plane.host_view()[2];
  });
  table.add("three indices of two dimensions", Errc::wrong_shape, {"weir::AnyView", "3 indices"}, [](Room&) {
    const auto plane = weir::empty<int>(weir::host, {3, 4});
    (void)plane.host_view()(0, 1, 2);
  });
}

struct Use {
  const char* name;
  std::function<void(Room&, weir::Array<int>&)> call;
};

const std::vector<Use>& uses() {
  static const std::vector<Use> all = {
      {"to_host", [](Room&, weir::Array<int>& x) { (void)x.to_host(); }},
      {"clone", [](Room& r, weir::Array<int>& x) { (void)x.clone(r.stream); }},
      {"launch in", [](Room& r, weir::Array<int>& x) { weir::launch(r.stream, 10, LookAt{}, weir::in(x)); }},
      {"launch inout", [](Room& r, weir::Array<int>& x) { weir::launch(r.stream, 10, AddOne{}, weir::inout(x)); }},
      {"launch out", [](Room& r, weir::Array<int>& x) { weir::launch(r.stream, 10, AddOne{}, weir::out(x)); }},
      {"launch on another stream",
       [](Room& r, weir::Array<int>& x) { weir::launch(r.device, 10, AddOne{}, weir::inout(x)); }},
      {"copy to", [](Room& r, weir::Array<int>& x) { weir::copy(r.stream, x, r.b); }},
      {"copy from", [](Room& r, weir::Array<int>& x) { weir::copy(r.stream, r.b, x); }},
      {"copy without a stream", [](Room& r, weir::Array<int>& x) { weir::copy(r.vector, x); }},
      {"fill", [](Room& r, weir::Array<int>& x) { weir::fill(r.stream, x, 1); }},
      {"host_call",
       [](Room& r, weir::Array<int>& x) {
         weir::host_call(
             r.stream, [] {}, weir::in(x));
       }},
      {"reduce", [](Room& r, weir::Array<int>& x) { weir::reduce(r.stream, x, r.b.slice(0, 1)); }},
  };
  return all;
}

void add_ended(Table& table) {
  for (const Use& use : uses()) {
    table.add(std::string(use.name) + " of an array moved from", Errc::invalid_handle, {"array"},
              [&](Room& room) { use.call(room, moved_from(room.a)); });
    table.add(std::string(use.name) + " of a freed array", Errc::already_freed, {"array of 40 bytes"}, [&](Room& room) {
      room.a.free();
      use.call(room, room.a);
    });
  }
  table.add("launch of a slice of a freed array", Errc::already_freed, {"weir::launch"}, [](Room& room) {
    const auto part = room.a.slice(0, 5);
    room.a.free();
    weir::launch(room.stream, 5, AddOne{}, weir::inout(part));
  });
  table.add("free of an array moved from", Errc::already_freed, {"weir::Array::free", "moved from"},
            [](Room& room) { moved_from(room.a).free(); });
  table.add("free twice", Errc::already_freed, {"weir::Array::free", "40 bytes"}, [](Room& room) {
    room.a.free();
    room.a.free();
  });
  table.add("free twice on two streams", Errc::already_freed, {"weir::Array::free"}, [](Room& room) {
    room.a.free(room.stream);
    room.a.free(weir::get_stream(room.device));
  });
  table.add("free pinned memory twice", Errc::already_freed, {"weir::Array::free", "pinned"}, [](Room& room) {
    room.pinned.free();
    room.pinned.free();
  });
  table.add("slice of an array moved from", Errc::invalid_handle, {"slice"},
            [](Room& room) { (void)moved_from(room.a).slice(0, 1); });
  table.add("transposed of an array moved from", Errc::invalid_handle, {"transposed"},
            [](Room& room) { (void)moved_from(room.plane).transposed(); });
  table.add("reshape of an array moved from", Errc::invalid_handle, {"reshape"}, [](Room& room) {
    (void)moved_from(room.a).reshape({2, 5});
  });
  table.add("device of an array moved from", Errc::invalid_handle, {"device"},
            [](Room& room) { (void)moved_from(room.a).device(); });
  table.add("a span of an array moved from", Errc::invalid_handle, {"array"},
            [](Room& room) { (void)moved_from(room.pinned).span(); });
  table.add("an array never made", Errc::invalid_handle, {"array"}, [](Room&) { (void)weir::Array<int>().to_host(); });
}

}  // namespace

std::vector<WrongInput> wrong_arrays() {
  Table table(__FILE__);
  add_sizes(table);
  add_shapes(table);
  add_host_access(table);
  add_ended(table);
  return table.take();
}

}  // namespace weir_test
