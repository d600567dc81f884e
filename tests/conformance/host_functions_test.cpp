// Host functions: in stream order, owned by their stream, and their exceptions come out at the next synchronisation.
// Rules without a counterpart: R91 (there is one kind of host function; it gets no status), R87 (whether functions of
// independent streams overlap is not promised).
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

class HostFunctions : public AnyDevice {};
ON_EVERY_DEVICE(HostFunctions);

//  s: [hold ......][write 9][host: reads it]
TEST_P(HostFunctions, C13_R84_a_host_function_runs_after_earlier_work_and_sees_it) {
  Gate gate;
  Marker written, seen;
  weir::Stream s(device());
  gate.hold(s);
  mark(s, written, 9);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    weir::host_call(s, [from = written.word(), to = seen.word()] { store_word(to, load_word(from)); });
  }));
  EXPECT_TRUE(stays(device(), [&] { return seen.value() == 0; }));
  gate.open();
  s.synchronize();
  EXPECT_EQ(seen.value(), 9);
}

//  s: [host: held ......][mark]
TEST_P(HostFunctions, C13_R85_a_running_host_function_holds_back_later_work_and_the_host) {
  Gate gate;
  Marker marker;
  weir::Stream s(device());
  gate.hold_by_host_call(s);
  mark(s, marker);
  EXPECT_TRUE(eventually([&] { return gate.begun() == 1; }));
  EXPECT_TRUE(stays(device(), [&] { return marker.value() == 0; }));
  EXPECT_FALSE(s.done());
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { s.synchronize(); }));
  EXPECT_EQ(marker.value(), 1);
}

//  held: [hold ......]|e
//  s:     wait(e) [host 0] wait(e) [host 1] ...
TEST_P(HostFunctions, R213_hundreds_of_them_behind_waits_return_and_run_in_order) {
  constexpr int pairs = 300;
  Gate gate;
  Log log(pairs);
  weir::Stream held(device()), s(device());
  gate.hold(held);
  const weir::Event e = held.record();
  EXPECT_TRUE(returns_while_held(gate, [&] {
    for (int i = 0; i < pairs; ++i) {
      s.wait(e);
      weir::host_call(s, [&log, i] { log.add(i); });
    }
  }));
  EXPECT_EQ(log.size(), 0);
  gate.open();
  s.synchronize();
  std::vector<int> expected(pairs);
  for (int i = 0; i < pairs; ++i) expected[static_cast<std::size_t>(i)] = i;
  EXPECT_EQ(log.values(), expected);
}

//  held: [hold ......]|e
//  s:     wait(e) [host] ... wait(e) [throws] wait(e) [host: skipped] ...
TEST_P(HostFunctions, R213_one_of_many_behind_waits_that_throws_stops_those_behind_it) {
  constexpr int pairs = 100;
  for (const int failing : {10, 60}) {
    Gate gate;
    Log log(pairs);
    Marker marker;
    weir::Stream held(device()), s(device());
    gate.hold(held);
    const weir::Event e = held.record();
    for (int i = 0; i < pairs; ++i) {
      s.wait(e);
      weir::host_call(s, [&log, i, failing] {
        if (i == failing) throw std::runtime_error("the pipe burst");
        log.add(i);
      });
    }
    mark(s, marker);
    gate.open();
    EXPECT_THROW(s.synchronize(), weir::Error);
    EXPECT_EQ(log.size(), failing);
    EXPECT_EQ(marker.value(), 0);
    mark(s, marker);
    s.synchronize();
    EXPECT_EQ(marker.value(), 1);
  }
}

//  s: [host: held ......]
//  n: [mark]
TEST_P(HostFunctions, R86_a_running_host_function_does_not_hold_other_streams) {
  Gate gate;
  Marker marker;
  weir::Stream s(device()), n(device(), {.blocking = false});
  gate.hold_by_host_call(s);
  ASSERT_TRUE(eventually([&] { return gate.begun() == 1; }));
  mark(n, marker);
  EXPECT_TRUE(eventually([&] { return marker.value() == 1; }));
}

struct AddOne {
  WEIR_KERNEL void operator()(std::size_t, weir::View<int> x) const { x[0] = x[0] + 1; }
};

//  s: [+1][host: x2][+1][host: x2] ...      20 times: 2 * (2^20 - 1)
TEST_P(HostFunctions, R93_kernels_and_host_functions_alternate_in_order) {
  weir::Stream s(device());
  auto x = weir::zeros<int>(weir::pinned, 1);
  for (int round = 0; round < 20; ++round) {
    weir::launch(s, 1, AddOne{}, weir::inout(x));
    weir::host_call(
        s, [value = x.data()] { *value *= 2; }, weir::inout(x));
  }
  s.synchronize();
  EXPECT_EQ(x[0], 2097150);
}

/// A move-only callable that owns something.
class MoveOnly {
 public:
  MoveOnly(std::unique_ptr<int> value, int* seen, int* destroyed)
      : value_(std::move(value)), seen_(seen), destroyed_(destroyed) {}
  MoveOnly(MoveOnly&& other) noexcept = default;
  ~MoveOnly() {
    if (value_) add_to_word(destroyed_, 1);
  }
  void operator()() { add_to_word(seen_, *value_); }

 private:
  std::unique_ptr<int> value_;
  int* seen_;
  int* destroyed_;
};

//  s: [hold ......][owned function]
TEST_P(HostFunctions, C13_the_callable_is_owned_called_once_and_destroyed_once) {
  Gate gate;
  Marker seen, destroyed;
  weir::Stream s(device());
  gate.hold(s);
  weir::host_call(s, MoveOnly(std::make_unique<int>(5), seen.word(), destroyed.word()));
  EXPECT_EQ(destroyed.value(), 0) << "it lives until it was called";
  gate.open();
  s.synchronize();
  EXPECT_EQ(seen.value(), 5);
  EXPECT_TRUE(eventually([&] { return destroyed.value() == 1; }));
  device().synchronize();
  EXPECT_EQ(destroyed.value(), 1);
}

//  s: [hold ......][owned function]      ~s
TEST_P(HostFunctions, C7_the_callable_outlives_its_stream) {
  Gate gate;
  Marker seen, destroyed;
  {
    weir::Stream s(device());
    gate.hold(s);
    weir::host_call(s, MoveOnly(std::make_unique<int>(5), seen.word(), destroyed.word()));
  }
  EXPECT_TRUE(stays(device(), [&] { return seen.value() == 0 && destroyed.value() == 0; }));
  gate.open();
  EXPECT_TRUE(eventually([&] { return destroyed.value() == 1; }));
  EXPECT_EQ(seen.value(), 5);
}

TEST_P(HostFunctions, C13_an_lvalue_callable_is_copied) {
  const auto calls = std::make_shared<int>(0);
  weir::Stream s(device());
  {
    auto function = [calls] { ++*calls; };
    for (int i = 0; i < 10; ++i) weir::host_call(s, function);
  }
  s.synchronize();
  EXPECT_EQ(*calls, 10);
  EXPECT_TRUE(eventually([&] { return calls.use_count() == 1; }));
}

//  s: [fails][owned function: skipped]
TEST_P(HostFunctions, R90_a_function_behind_a_failure_is_not_called_but_destroyed) {
  Marker seen, destroyed;
  weir::Stream s(device());
  weir::host_call(s, [] { throw std::runtime_error("burst"); });
  weir::host_call(s, MoveOnly(std::make_unique<int>(5), seen.word(), destroyed.word()));
  EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { s.synchronize(); }));
  EXPECT_EQ(seen.value(), 0);
  EXPECT_TRUE(eventually([&] { return destroyed.value() == 1; }));
}

struct AddOneToAll {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x) const { x[i] += 1; }
};

//  s: x=0 [host] [x+=1] [y=x] [y[..]=7]  again with a host function that throws: all of them skipped
TEST_P(HostFunctions, R90_what_is_large_runs_behind_one_that_ends_well_and_is_skipped_behind_one_that_throws) {
  constexpr std::size_t count = 1 << 18;
  weir::Stream s(device());
  const auto x = weir::zeros<int>(s, count), y = weir::zeros<int>(s, count), z = weir::zeros<int>(s, count);
  for (const bool fails : {false, true, false}) {
    Gate gate;
    gate.hold(s);  // so that all of it is submitted while nobody knows
    weir::host_call(s, [fails] {
      if (fails) throw std::runtime_error("burst");
    });
    weir::launch(s, count, AddOneToAll{}, weir::inout(x));
    weir::copy(s, y, x);
    weir::fill(s, z, fails ? 7 : 3);
    gate.open();
    const auto error = error_of([&] { s.synchronize(); });
    EXPECT_EQ(error.has_value(), fails);
  }
  EXPECT_EQ(x.to_host(), std::vector<int>(count, 2));
  EXPECT_EQ(y.to_host(), std::vector<int>(count, 2));
  EXPECT_EQ(z.to_host(), std::vector<int>(count, 3));
}

TEST_P(HostFunctions, R92_an_empty_function_is_an_error) {
  weir::Stream s(device());
  EXPECT_THROW(
      {
        weir::host_call(s, std::function<void()>{});
        s.synchronize();
      },
      weir::Error);
  s.synchronize();
}

TEST_P(HostFunctions, C13_an_exception_comes_out_at_the_next_synchronisation) {
  weir::Stream s(device(), {.name = "upload"});
  const int line = __LINE__ + 1;
  weir::host_call(s, [] { throw std::runtime_error("burst"); });
  const auto error = error_of([&] { s.synchronize(); });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->errc(), weir::Errc::host_function_failed);
  EXPECT_EQ(error->operation(), "weir::host_call");
  EXPECT_EQ(static_cast<int>(error->where().line()), line);
  EXPECT_NE(std::string(error->what()).find("upload"), std::string::npos) << error->what();
  EXPECT_NE(std::string(error->what()).find("burst"), std::string::npos) << error->what();
  ASSERT_TRUE(error->cause());
  EXPECT_THROW(std::rethrow_exception(error->cause()), std::runtime_error);
  s.synchronize();  // reported once
}

TEST_P(HostFunctions, C13_the_stream_works_again_after_the_failure_was_reported) {
  Marker skipped, runs;
  weir::Stream s(device());
  weir::host_call(s, [] { throw 7; });
  mark(s, skipped);
  EXPECT_THROW(s.synchronize(), weir::Error);
  EXPECT_EQ(skipped.value(), 0);
  mark(s, runs);
  s.synchronize();
  EXPECT_EQ(runs.value(), 1);
}

TEST_P(HostFunctions, the_last_owner_of_an_array_may_be_a_host_function) {
  Marker sum;
  weir::Stream s(device());
  for (int round = 0; round < 50; ++round) {
    auto x = weir::full<int>(weir::pinned, 100, 1);
    auto y = weir::full<int>(s, 100, 1);
    weir::host_call(s, [x = std::move(x), y = std::move(y), word = sum.word()] { add_to_word(word, *x.data()); });
  }
  s.synchronize();
  EXPECT_EQ(sum.value(), 50);
}

TEST_P(HostFunctions, the_last_owner_of_streams_and_events_may_be_a_host_function) {
  Marker marker;
  weir::Stream s(device());
  for (int round = 0; round < 50; ++round) {
    weir::Stream owned(device());
    weir::Event event = owned.record();
    mark(owned, marker);
    weir::host_call(s, [owned = std::move(owned), event = std::move(event)] {});
  }
  s.synchronize();
  EXPECT_TRUE(eventually([&] { return marker.value() == 1; }));
}

//  s: [hold ......][external: called in order on the CPU, at once on a GPU]
TEST_P(HostFunctions, foreign_work_is_called_once_with_the_native_stream) {
  Marker calls;
  weir::Stream s(device());
  void* handle = &calls;
  weir::external(s, [&handle, word = calls.word()](weir::NativeStream native) {
    handle = native.handle;
    add_to_word(word, 1);
  });
  s.synchronize();
  EXPECT_EQ(calls.value(), 1);
  EXPECT_EQ(handle, s.native());
}

}  // namespace
}  // namespace weir_test
