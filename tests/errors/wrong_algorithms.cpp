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
void add_ended_streams(Table& table) {
  struct Call {
    const char* name;
    std::function<void(Room&, weir::StreamRef)> call;
  };
  const Call calls[] = {
      {"for_each", [](Room& room, weir::StreamRef s) { weir::for_each(s, room.a, Negate{}); }},
      {"transform", [](Room& room, weir::StreamRef s) { weir::transform(s, room.a, room.b, Same{}); }},
      {"reduce", [](Room& room, weir::StreamRef s) { weir::reduce(s, room.a, room.b); }},
      {"inclusive_scan", [](Room& room, weir::StreamRef s) { weir::inclusive_scan(s, room.a, room.b); }},
      {"exclusive_scan", [](Room& room, weir::StreamRef s) { weir::exclusive_scan(s, room.a, room.b); }},
      {"sort", [](Room& room, weir::StreamRef s) { weir::sort(s, room.a); }},
      {"sort_by_key", [](Room& room, weir::StreamRef s) { weir::sort_by_key(s, room.a, room.b); }},
      {"histogram", [](Room& room, weir::StreamRef s) { weir::histogram(s, room.a, room.b, 0, 10); }},
      {"select_if",
       [](Room& room, weir::StreamRef s) {
         auto count = three(room);
         weir::select_if(s, room.a, room.b, count, IsPositive{});
       }},
      {"partition",
       [](Room& room, weir::StreamRef s) {
         auto count = three(room);
         weir::partition(s, room.a, room.b, count, IsPositive{});
       }},
      {"reduce_segments",
       [](Room& room, weir::StreamRef s) {
         auto sums = three(room);
         weir::reduce_segments(s, room.a, room.b.slice(0, 4), sums);
       }},
      {"reduce_by_key",
       [](Room& room, weir::StreamRef s) {
         auto count = three(room);
         auto unique = weir::zeros<int>(room.stream, 10), sums = weir::zeros<int>(room.stream, 10);
         weir::reduce_by_key(s, room.a, room.b, unique, sums, count);
       }},
  };
  for (const Call& one : calls) {
    table.add(one.name + std::string(" on a stream that ended"), Errc::invalid_handle,
              {std::string("weir::") + one.name + ": stream"},
              [call = one.call](Room& room) { call(room, room.ended_stream()); });
  }
}

}  // namespace

std::vector<WrongInput> wrong_algorithms() {
  Table table(__FILE__);
  add_sorts(table);
  add_selections(table);
  add_counts(table);
  add_sums(table);
  add_waits(table);
  add_ended_streams(table);
  return table.take();
}

}  // namespace weir_test
