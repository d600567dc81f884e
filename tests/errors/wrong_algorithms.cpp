// Wrong inputs: what sorts, selects, counts and adds up, and questions about kernels.
#include <functional>
#include <string>
#include <utility>

#include "wrong_inputs.hpp"

namespace weir_test {

using weir::Errc;

namespace {

struct IsPositive {
  WEIR_KERNEL bool operator()(int x) const { return x > 0; }
};
struct Negate {
  WEIR_KERNEL void operator()(int& x) const { x = -x; }
};

/// Three elements to put results in.
weir::Array<int> three(const Room& room) {
  auto x = weir::zeros<int>(room.stream, 3);
  room.stream.synchronize();
  return x;
}

void add_sorts(Table& table) {
  table.add("sort of a plane", Errc::wrong_shape, {"weir::sort:", "2 dimensions", "reshape"},
            [](Room& room) { weir::sort(room.stream, room.plane); });
  table.add("sort of an array moved from", Errc::invalid_handle, {"weir::sort:"},
            [](Room& room) { weir::sort(room.stream, moved_from(room.a)); });
  table.add("sort_by_key with values of another length", Errc::wrong_shape, {"weir::sort_by_key:", "10", "9"},
            [](Room& room) { weir::sort_by_key(room.stream, room.a, room.b.slice(0, 9)); });
  table.add("sort_by_key of one array for both", Errc::overlapping, {"weir::sort_by_key:", "share memory"},
            [](Room& room) { weir::sort_by_key(room.stream, room.a, room.a); });
  table.add("sort_by_key with a plane of values", Errc::wrong_shape, {"weir::sort_by_key:", "2 dimensions"},
            [](Room& room) { weir::sort_by_key(room.stream, room.a, room.plane); });
}

void add_selections(Table& table) {
  table.add("select_if to fewer places", Errc::wrong_shape, {"weir::select_if:", "10", "3"}, [](Room& room) {
    auto count = three(room);
    weir::select_if(room.stream, room.a, three(room), count, IsPositive{});
  });
  table.add("select_if in place", Errc::overlapping, {"weir::select_if:", "share memory"}, [](Room& room) {
    auto count = three(room);
    weir::select_if(room.stream, room.a, room.a, count, IsPositive{});
  });
  table.add("select_if without a place for the count", Errc::wrong_shape, {"weir::select_if:"}, [](Room& room) {
    auto count = three(room);
    weir::select_if(room.stream, room.a, room.b, count.slice(0, 0), IsPositive{});
  });
  table.add("select_if with an array moved from", Errc::invalid_handle, {"weir::select_if:"}, [](Room& room) {
    auto count = three(room);
    weir::select_if(room.stream, moved_from(room.a), room.b, count, IsPositive{});
  });
  table.add("partition in place", Errc::overlapping, {"weir::partition:", "share memory"}, [](Room& room) {
    auto count = three(room);
    weir::partition(room.stream, room.a, room.a, count, IsPositive{});
  });
  table.add("partition whose count is in its output", Errc::overlapping, {"weir::partition:"},
            [](Room& room) { weir::partition(room.stream, room.a, room.b, room.b.slice(9, 10), IsPositive{}); });
  table.add("partition of a plane", Errc::wrong_shape, {"weir::partition:", "2 dimensions"}, [](Room& room) {
    auto count = three(room);
    weir::partition(room.stream, room.plane, room.b, count, IsPositive{});
  });
}

void add_counts(Table& table) {
  table.add("histogram without bins", Errc::wrong_shape, {"weir::histogram:"},
            [](Room& room) { weir::histogram(room.stream, room.a, room.b.slice(0, 0), 0, 10); });
  table.add("histogram of an empty interval", Errc::invalid_value, {"weir::histogram:", "lower"},
            [](Room& room) { weir::histogram(room.stream, room.a, room.b, 5, 5); });
  table.add("histogram of a reversed interval", Errc::invalid_value, {"weir::histogram:", "lower"},
            [](Room& room) { weir::histogram(room.stream, room.a, room.b, 10, 0); });
  table.add("histogram of a plane", Errc::wrong_shape, {"weir::histogram:", "2 dimensions"},
            [](Room& room) { weir::histogram(room.stream, room.plane, room.b, 0, 10); });
}

void add_sums(Table& table) {
  table.add("exclusive_scan to another length", Errc::wrong_shape, {"weir::exclusive_scan:", "10", "5"},
            [](Room& room) { weir::exclusive_scan(room.stream, room.a, room.b.slice(0, 5)); });
  table.add("exclusive_scan of a plane", Errc::wrong_shape, {"weir::exclusive_scan:", "2 dimensions"},
            [](Room& room) { weir::exclusive_scan(room.stream, room.plane, room.b); });
  table.add("reduce_segments without the last offset", Errc::wrong_shape, {"weir::reduce_segments:"}, [](Room& room) {
    auto offsets = three(room);
    weir::reduce_segments(room.stream, room.a, offsets, room.b.slice(0, 3));
  });
  table.add("reduce_by_key with values of another length", Errc::wrong_shape, {"weir::reduce_by_key:", "10", "9"},
            [](Room& room) {
              auto count = three(room);
              auto unique = weir::zeros<int>(room.stream, 10), sums = weir::zeros<int>(room.stream, 10);
              weir::reduce_by_key(room.stream, room.a, room.b.slice(0, 9), unique, sums, count);
            });
  table.add("reduce_by_key in place", Errc::overlapping, {"weir::reduce_by_key:", "share memory"}, [](Room& room) {
    auto count = three(room);
    auto sums = weir::zeros<int>(room.stream, 10);
    weir::reduce_by_key(room.stream, room.a, room.b, room.a, sums, count);
  });
  table.add("for_each of a plane", Errc::wrong_shape, {"weir::for_each:", "2 dimensions"},
            [](Room& room) { weir::for_each(room.stream, room.plane, Negate{}); });
  table.add("for_each of an array moved from", Errc::invalid_handle, {"weir::for_each:"},
            [](Room& room) { weir::for_each(room.stream, moved_from(room.a), Negate{}); });
}

void add_waits(Table& table) {
  table.add("a wait for several streams, one of which ended", Errc::invalid_handle, {"wait"}, [](Room& room) {
    const weir::Stream good(room.device);
    const weir::StreamRef ended = room.ended_stream();
    room.stream.wait({weir::StreamRef(good), ended});
  });
  table.add("a wait for several events, one of which ended", Errc::invalid_handle, {"wait"}, [](Room& room) {
    const weir::Event good = room.stream.record();
    const weir::EventRef ended = room.ended_event();
    room.stream.wait({weir::EventRef(good), ended});
  });
  table.add("to_host on a destroyed stream", Errc::invalid_handle, {"to_host"},
            [](Room& room) { (void)room.a.to_host(room.ended_stream()); });
}

/// Each in its own name, though it is made of allocations and launches.
struct Call {
  const char* name;
  std::function<void(Room&, weir::StreamRef, weir::Array<int>&)> call;  ///< with the array that it begins with
};
const std::vector<Call>& all_algorithms() {
  using weir::StreamRef;
  using Ints = weir::Array<int>;
  static const std::vector<Call> all = {
      {"for_each", [](Room&, StreamRef s, Ints& x) { weir::for_each(s, x, Negate{}); }},
      {"transform", [](Room& room, StreamRef s, Ints& x) { weir::transform(s, x, room.b, Same{}); }},
      {"reduce", [](Room& room, StreamRef s, Ints& x) { weir::reduce(s, x, room.b); }},
      {"inclusive_scan", [](Room& room, StreamRef s, Ints& x) { weir::inclusive_scan(s, x, room.b); }},
      {"exclusive_scan", [](Room& room, StreamRef s, Ints& x) { weir::exclusive_scan(s, x, room.b); }},
      {"sort", [](Room&, StreamRef s, Ints& x) { weir::sort(s, x); }},
      {"sort_by_key", [](Room& room, StreamRef s, Ints& x) { weir::sort_by_key(s, x, room.b); }},
      {"histogram", [](Room& room, StreamRef s, Ints& x) { weir::histogram(s, x, room.b, 0, 10); }},
      {"select_if",
       [](Room& room, StreamRef s, Ints& x) {
         auto count = three(room);
         weir::select_if(s, x, room.b, count, IsPositive{});
       }},
      {"partition",
       [](Room& room, StreamRef s, Ints& x) {
         auto count = three(room);
         weir::partition(s, x, room.b, count, IsPositive{});
       }},
      {"reduce_segments",
       [](Room& room, StreamRef s, Ints& x) {
         auto sums = three(room);
         weir::reduce_segments(s, x, room.b.slice(0, 4), sums);
       }},
      {"reduce_by_key",
       [](Room& room, StreamRef s, Ints& x) {
         auto count = three(room);
         auto unique = weir::zeros<int>(room.stream, 10), sums = weir::zeros<int>(room.stream, 10);
         weir::reduce_by_key(s, x, room.b, unique, sums, count);
       }},
  };
  return all;
}

void add_all_algorithms(Table& table) {
  for (const Call& one : all_algorithms()) {
    const std::string operation = std::string("weir::") + one.name + ": ";
    table.add(one.name + std::string(" on a stream that ended"), Errc::invalid_handle, {operation + "stream"},
              [&](Room& room) { one.call(room, room.ended_stream(), room.a); });
    table.add(
        one.name + std::string(" of a pageable array"), Errc::wrong_memory, {operation + "host array", "pinned"},
        [&](Room& room) { one.call(room, room.stream, room.pageable); }, Needs::pageable_out_of_reach);
    table.add(
        one.name + std::string(" of an array of another device"), Errc::wrong_device, {operation, "enable_peer_access"},
        [&](Room& room) {
          auto far = weir::zeros<int>(room.other, 10);
          weir::get_stream(room.other).synchronize();
          one.call(room, room.stream, far);
        },
        Needs::two_devices);
  }
}

void add_results_out_of_reach(Table& table) {
  const auto add = [&](const char* name, std::function<void(Room&)> call) {
    table.add(name + std::string(" to a pageable array"), Errc::wrong_memory,
              {"weir::" + std::string(name) + ": host array"}, std::move(call), Needs::pageable_out_of_reach);
  };
  add("transform", [](Room& room) { weir::transform(room.stream, room.a, room.pageable, Same{}); });
  add("reduce", [](Room& room) { weir::reduce(room.stream, room.a, room.pageable); });
  add("inclusive_scan", [](Room& room) { weir::inclusive_scan(room.stream, room.a, room.pageable); });
  add("histogram", [](Room& room) { weir::histogram(room.stream, room.a, room.pageable, 0, 10); });
  add("partition", [](Room& room) { weir::partition(room.stream, room.a, room.b, room.pageable, IsPositive{}); });
}

/// Addresses of no function, as operators.
void add_no_functions(Table& table) {
  using One = int (*)(int);
  using Two = int (*)(int, int);
  using Ask = bool (*)(int);
  using Less = bool (*)(int, int);
  const auto add = [&](const char* name, const char* what, std::function<void(Room&)> call) {
    table.add(name + std::string(" with the address of no function"), Errc::invalid_value,
              {"weir::" + std::string(name) + ": " + what, "null"}, std::move(call));
  };
  add("for_each", "function", [](Room& room) { weir::for_each(room.stream, room.a, One{nullptr}); });
  add("transform", "function", [](Room& room) { weir::transform(room.stream, room.a, room.b, One{nullptr}); });
  add("reduce", "function", [](Room& room) { weir::reduce(room.stream, room.a, room.b, Two{nullptr}); });
  add("inclusive_scan", "function",
      [](Room& room) { weir::inclusive_scan(room.stream, room.a, room.b, Two{nullptr}); });
  add("exclusive_scan", "function",
      [](Room& room) { weir::exclusive_scan(room.stream, room.a, room.b, 0, Two{nullptr}); });
  add("sort", "comparison", [](Room& room) { weir::sort(room.stream, room.a, Less{nullptr}); });
  add("sort_by_key", "comparison", [](Room& room) { weir::sort_by_key(room.stream, room.a, room.b, Less{nullptr}); });
  add("select_if", "predicate", [](Room& room) {
    auto count = three(room);
    weir::select_if(room.stream, room.a, room.b, count, Ask{nullptr});
  });
  add("reduce_segments", "function", [](Room& room) {
    auto sums = three(room);
    weir::reduce_segments(room.stream, room.a, room.b.slice(0, 4), sums, 0, Two{nullptr});
  });
  add("reduce_by_key", "function", [](Room& room) {
    auto count = three(room);
    auto unique = weir::zeros<int>(room.stream, 10), sums = weir::zeros<int>(room.stream, 10);
    weir::reduce_by_key(room.stream, room.a, room.b, unique, sums, count, Two{nullptr});
  });
}

}  // namespace

std::vector<WrongInput> wrong_algorithms() {
  Table table(__FILE__);
  add_sorts(table);
  add_selections(table);
  add_counts(table);
  add_sums(table);
  add_waits(table);
  add_all_algorithms(table);
  add_results_out_of_reach(table);
  add_no_functions(table);
  return table.take();
}

}  // namespace weir_test
