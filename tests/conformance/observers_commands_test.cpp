// What observers are told about commands: threads, records, regions, memory's ends, default streams, waits, failures.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

/// A command as it was told, with copies of what it points to.
struct Told {
  weir::Command command;
  std::vector<weir::Region> uses;
  std::vector<weir::StreamId> behind;
};

class Recorder : public weir::Observer {
 public:
  explicit Recorder(weir::Watch watch = weir::Watch::everything) { weir::attach(*this, watch); }
  ~Recorder() override { weir::detach(*this); }

  void submitted(const weir::Command& c) override {
    const std::lock_guard lock(mutex_);
    told_.push_back({c, {c.uses.begin(), c.uses.end()}, {c.behind.begin(), c.behind.end()}});
  }
  void refused(const weir::Refusal& refusal) override {
    const std::lock_guard lock(mutex_);
    refused_.emplace_back(refusal.command.id, refusal.error.errc());
  }
  void failed(const weir::Failure& failure) override {
    const std::lock_guard lock(mutex_);
    failed_.push_back({failure.stream, failure.from, &failure.error});
  }
  void waited(const weir::HostWait& wait) override {
    const std::lock_guard lock(mutex_);
    waits_.push_back(wait);
    failures_.push_back(wait.failure != nullptr ? wait.failure->what() : "");
  }
  void opened(const weir::StreamInfo& info) override {
    const std::lock_guard lock(mutex_);
    opened_.push_back(info);
  }
  void shared(weir::StreamId id, weir::SourceLocation) override {
    const std::lock_guard lock(mutex_);
    shared_.push_back(id);
  }
  void named(weir::BufferId buffer, std::string_view name) override {
    const std::lock_guard lock(mutex_);
    names_[buffer] = name;
  }

  struct Failed {
    weir::StreamId stream, from;
    const weir::Error* error;
  };
  std::vector<Told> told() { return copy(told_); }
  template <class Op>
  std::vector<Told> of() {
    std::vector<Told> some = copy(told_);
    std::erase_if(some, [](const Told& one) { return !std::holds_alternative<Op>(one.command.op); });
    return some;
  }
  std::vector<std::pair<weir::CommandId, weir::Errc>> refusals() { return copy(refused_); }
  std::vector<Failed> failed() { return copy(failed_); }
  std::vector<weir::HostWait> waits() { return copy(waits_); }
  std::vector<std::string> failures() { return copy(failures_); }
  std::vector<weir::StreamInfo> opened() { return copy(opened_); }
  std::vector<weir::StreamId> shared() { return copy(shared_); }
  std::string name(weir::BufferId buffer) {
    const std::lock_guard lock(mutex_);
    return names_[buffer];
  }

 private:
  template <class T>
  std::vector<T> copy(const std::vector<T>& all) {
    const std::lock_guard lock(mutex_);
    return all;
  }
  std::mutex mutex_;
  std::vector<Told> told_;
  std::vector<std::pair<weir::CommandId, weir::Errc>> refused_;
  std::vector<Failed> failed_;
  std::vector<weir::HostWait> waits_;
  std::vector<std::string> failures_;
  std::vector<weir::StreamInfo> opened_;
  std::vector<weir::StreamId> shared_;
  std::map<weir::BufferId, std::string> names_;
};

using Streams = std::vector<weir::StreamId>;

class ObservedCommands : public AnyDevice {};
ON_EVERY_DEVICE(ObservedCommands);

TEST_P(ObservedCommands, each_command_has_the_number_of_its_host_thread) {
  Recorder recorder;
  weir::Stream s(device());
  Marker marker;
  mark(s, marker);
  mark(s, marker);
  std::thread([&] { mark(s, marker); }).join();
  std::thread([&] { mark(s, marker); }).join();
  s.synchronize();
  const std::vector<Told> told = recorder.of<weir::Launch>();
  ASSERT_EQ(told.size(), 4u);
  EXPECT_NE(told[0].command.thread, 0u);
  EXPECT_EQ(told[1].command.thread, told[0].command.thread);
  EXPECT_NE(told[2].command.thread, told[0].command.thread);
  EXPECT_NE(told[3].command.thread, told[2].command.thread);
  EXPECT_EQ(recorder.waits().back().thread, told[0].command.thread);
}

TEST_P(ObservedCommands, records_are_numbered_and_waits_name_the_one_they_take) {
  weir::Stream a(device()), b(device());
  weir::Event before(device()), e(device());
  a.record(before);
  Recorder recorder;
  b.wait(e);
  a.record(e);
  b.wait(e);
  b.record(e);
  a.record(e);
  b.wait(e);
  b.wait(before);
  e.synchronize();
  std::vector<std::uint64_t> records, waits;
  for (const Told& one : recorder.of<weir::Record>()) records.push_back(std::get<weir::Record>(one.command.op).number);
  for (const Told& one : recorder.of<weir::Wait>()) waits.push_back(std::get<weir::Wait>(one.command.op).record);
  EXPECT_EQ(records, (std::vector<std::uint64_t>{1, 2, 3}));
  ASSERT_EQ(waits.size(), 4u);
  EXPECT_EQ(waits[0], 0u);
  EXPECT_EQ(waits[1], 1u);
  EXPECT_EQ(waits[2], 3u);
  EXPECT_NE(waits[3], 0u) << "it was recorded before the observer came";
  EXPECT_EQ(recorder.waits().back().record, 3u);
}

/// The bytes of a region, from `from`.
std::set<std::size_t> bytes_of(const weir::Region& region, const void* from) {
  std::set<std::size_t> bytes;
  const auto first =
      static_cast<std::size_t>(static_cast<const std::byte*>(region.begin) - static_cast<const std::byte*>(from));
  std::vector<weir::Region::Repeat> repeats{{region.rows, region.pitch}};
  for (std::size_t d = 0; d < region.outer_count; ++d) repeats.push_back(region.outer[d]);
  std::size_t count = 1;
  for (const auto& repeat : repeats) count *= repeat.count;
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t at = first, rest = i;
    for (const auto& repeat : repeats) {
      at += rest % repeat.count * repeat.stride;
      rest /= repeat.count;
    }
    for (std::size_t b = 0; b < region.row_bytes; ++b) bytes.insert(at + b);
  }
  return bytes;
}
template <class T>
std::set<std::size_t> bytes_of(const weir::AnyView<T>& view, const void* from) {
  std::set<std::size_t> bytes;
  const weir::Shape& shape = view.shape();
  for (std::size_t i = 0; i < shape.count(); ++i) {
    std::ptrdiff_t at = 0;
    std::size_t rest = i;
    for (std::size_t d = shape.rank(); d-- > 0; rest /= shape[d]) {
      at += static_cast<std::ptrdiff_t>(rest % shape[d]) * view.stride(d);
    }
    const auto* element = reinterpret_cast<const std::byte*>(view.data() + at);
    for (std::size_t b = 0; b < sizeof(T); ++b) {
      bytes.insert(static_cast<std::size_t>(element - static_cast<const std::byte*>(from)) + b);
    }
  }
  return bytes;
}

TEST_P(ObservedCommands, regions_are_the_bytes_that_are_touched_whatever_the_strides) {
  weir::Stream s(device());
  const auto x = weir::empty<int>(s, {4, 5, 6, 7});
  const auto check = [&](const weir::Slice<int>& slice) {
    const weir::Region region = weir::region_of(weir::in(slice));
    EXPECT_EQ(bytes_of(region, x.data()), bytes_of(slice.plain_view(), x.data()))
        << weir::region_of(weir::in(slice)).rows;
    const auto bytes = bytes_of(slice.plain_view(), x.data());
    EXPECT_EQ(region.extent_bytes(), bytes.empty() ? 0 : *bytes.rbegin() - *bytes.begin() + 1);
    EXPECT_EQ(region.buffer, x.storage()->buffer);
  };
  check(x.slice(0, 4));
  check(x.slice(1, 1));
  check(x.slice({{1, 3}, {0, 5}, {0, 6}, {2, 5}}));
  check(x.slice({{0, 4, 3}, {1, 5, 2}, {0, 6, 2}, {0, 7, 3}}));
  check(x.slice({{0, 4, 2}, {0, 5}, {3, 4}, {0, 7}}).transposed());
  check(x.transposed());
  check(x.slice({{0, 1}, {0, 5, 2}, {0, 6}, {0, 7, 2}}));
  EXPECT_EQ(weir::region_of(weir::in(x.transposed())).row_bytes, x.bytes()) << "dense, in another order";
  EXPECT_EQ(weir::region_of(weir::accumulate(x)).access, weir::Access::accumulate);
  s.synchronize();
}

TEST_P(ObservedCommands, strides_below_zero_begin_at_the_lowest_address) {
  int values[12] = {};
  const std::size_t sizes[] = {3, 2};
  const std::ptrdiff_t strides[] = {-4, 2};
  const weir::View<int, 2> view(values + 8, sizes, strides);
  const weir::Region region = weir::region_of(weir::in(view));
  EXPECT_EQ(region.begin, values);
  EXPECT_EQ(bytes_of(region, values), bytes_of(weir::AnyView<int>(view), values));
}

TEST_P(ObservedCommands, regions_that_interleave_share_no_byte) {
  weir::Stream s(device());
  Recorder recorder;
  const auto x = weir::empty<int>(s, {8, 8});
  weir::fill(s, x.slice({{0, 8, 2}, {0, 8, 2}}), 1);
  weir::fill(s, x.slice({{0, 8, 2}, {1, 8, 2}}), 2);
  s.synchronize();
  const std::vector<Told> fills = recorder.of<weir::Fill>();
  ASSERT_EQ(fills.size(), 2u);
  const auto a = bytes_of(fills[0].uses[0], x.data()), b = bytes_of(fills[1].uses[0], x.data());
  EXPECT_EQ(a.size(), 16 * sizeof(int));
  EXPECT_TRUE(std::none_of(a.begin(), a.end(), [&](std::size_t byte) { return b.contains(byte); }));
}

//  home: [alloc]     a: [uses]      named: free(x)
TEST_P(ObservedCommands, C7_the_end_of_an_array_names_its_stream_and_what_it_comes_behind) {
  Recorder recorder;
  weir::Stream home(device(), {.blocking = false}), a(device(), {.blocking = false}), b(device(), {.blocking = false});
  auto x = weir::zeros<int>(home, 10);
  auto y = weir::zeros<int>(home, 10);
  a.wait(home);
  weir::fill(a, x, 1);
  weir::fill(a, y, 1);
  x.free(b);
  y = {};
  const std::vector<Told> frees = recorder.of<weir::Free>();
  ASSERT_EQ(frees.size(), 2u);
  EXPECT_EQ(frees[0].command.stream, b.id());
  EXPECT_EQ(std::set(frees[0].behind.begin(), frees[0].behind.end()), (std::set{home.id(), a.id()}));
  EXPECT_EQ(frees[1].command.stream, home.id());
  EXPECT_EQ(frees[1].behind, Streams{a.id()});
  EXPECT_EQ(frees[0].command.where.file_name(), recorder.of<weir::Fill>()[0].command.where.file_name());
}

TEST_P(ObservedCommands, pool_memory_has_a_buffer_and_a_size) {
  Recorder recorder;
  weir::Stream s(device(), {.blocking = false}), t(device(), {.blocking = false});
  const weir::PoolRef pool = weir::default_pool(device());
  void* data = pool.allocate(s, 1000);
  t.wait(s);
  pool.free(t, data);
  const auto allocs = recorder.of<weir::Alloc>(), frees = recorder.of<weir::Free>();
  ASSERT_EQ(allocs.size(), 1u);
  ASSERT_EQ(frees.size(), 1u);
  const auto& alloc = std::get<weir::Alloc>(allocs[0].command.op);
  const auto& free = std::get<weir::Free>(frees[0].command.op);
  EXPECT_NE(alloc.buffer, 0u);
  EXPECT_EQ(alloc.bytes, 1000u);
  EXPECT_EQ(free.buffer, alloc.buffer);
  EXPECT_EQ(free.bytes, 1000u);
  EXPECT_EQ(frees[0].command.stream, t.id());
  EXPECT_TRUE(frees[0].behind.empty());
}

//  two threads allocate and free one block in turns: no Alloc of memory is told before the Free of what was there
TEST_P(ObservedCommands, a_free_is_told_before_the_next_allocation_of_the_memory) {
  struct Live : weir::Observer {
    void submitted(const weir::Command& c) override {
      const std::lock_guard lock(mutex);
      if (const auto* alloc = std::get_if<weir::Alloc>(&c.op)) twice += !live.insert(alloc->data).second;
      if (const auto* free = std::get_if<weir::Free>(&c.op)) live.erase(free->data);
    }
    std::mutex mutex;
    std::set<const void*> live;
    int twice = 0;
  } live;
  weir::attach(live, weir::Watch::memory);
  const weir::PoolRef pool = weir::default_pool(device());
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      weir::Stream s(device());
      for (int i = 0; i < 2000; ++i) pool.free(s, pool.allocate(s, 4096));
      s.synchronize();
    });
  }
  for (std::thread& thread : threads) thread.join();
  weir::detach(live);
  EXPECT_EQ(live.twice, 0);
}

//  a, b: blocking     legacy: [c]     n: not blocking
TEST_P(ObservedCommands, C8_commands_say_which_default_streams_they_come_behind) {
  weir::Stream a(device()), b(device()), n(device(), {.blocking = false}), idle(device());
  const weir::StreamRef legacy = weir::legacy_stream(device());
  Marker marker;
  // What was before is nobody's business below, also if another observer has seen it.
  mark(legacy, marker);
  mark(a, marker);
  mark(b, marker);
  device().synchronize();
  Recorder recorder(weir::Watch::commands);
  mark(a, marker);
  mark(n, marker);
  mark(b, marker);
  mark(a, marker);
  mark(legacy, marker);
  mark(legacy, marker);
  mark(n, marker);
  mark(a, marker);
  mark(a, marker);
  device().synchronize();
  const std::vector<Told> told = recorder.told();
  ASSERT_EQ(told.size(), 9u);
  for (const std::size_t i : {0, 1, 2, 3, 5, 6, 8}) EXPECT_TRUE(told[i].behind.empty()) << i;
  EXPECT_EQ(told[4].behind, (Streams{a.id(), b.id()}));
  EXPECT_EQ(told[7].behind, Streams{legacy.id()});
}

TEST_P(ObservedCommands, waits_of_the_host_have_a_source_and_a_backend) {
  using Source = weir::HostWait::Source;
  weir::Stream s(device());
  const weir::Event e = s.record();
  const auto x = weir::zeros<int>(s, 100);
  std::vector<int> values(100), pinned(1000);
  weir::pin(pinned.data(), 4000);
  Recorder recorder;
  EXPECT_TRUE(eventually([&] { return e.done(); }));
  EXPECT_TRUE(eventually([&] { return s.done(); }));
  ASSERT_EQ(recorder.waits().size(), 2u);
  EXPECT_EQ(recorder.waits()[0].source, Source::query);
  EXPECT_EQ(recorder.waits()[0].event_id, e.id());
  EXPECT_EQ(recorder.waits()[1].source, Source::query);
  EXPECT_EQ(recorder.waits()[1].stream, s.id());
  EXPECT_EQ(recorder.waits()[1].backend, device().backend());
  weir::copy(s, values, x);
  ASSERT_EQ(recorder.waits().size(), 3u);
  EXPECT_EQ(recorder.waits()[2].source, Source::pageable_copy);
  EXPECT_EQ(recorder.waits()[2].kind, weir::HostWait::Kind::command);
  EXPECT_EQ(recorder.waits()[2].command, recorder.of<weir::Copy>().back().command.id);
  weir::copy(s, x, values);  // taken at the call: it waits for nothing
  EXPECT_EQ(recorder.waits().size(), 3u);
  weir::unpin(pinned.data());
  ASSERT_EQ(recorder.waits().size(), 4u);
  EXPECT_EQ(recorder.waits()[3].source, Source::unpin);
  EXPECT_EQ(recorder.waits()[3].kind, weir::HostWait::Kind::all);
  s.synchronize();
}

//  s: [held]       done() is false: nothing is told
TEST_P(ObservedCommands, C9_a_query_that_is_false_orders_nothing) {
  weir::Stream s(device());
  Recorder recorder;
  Gate gate;
  gate.hold(s);
  EXPECT_FALSE(s.done());
  EXPECT_FALSE(s.record().done());
  EXPECT_TRUE(recorder.waits().empty());
  gate.open();
  s.synchronize();
  EXPECT_EQ(recorder.waits().size(), 1u);
}

TEST_P(ObservedCommands, streams_tell_where_they_were_made_and_that_their_handle_was_taken) {
  Recorder recorder;
  const weir::Stream s(device());
  const std::uint32_t line = __LINE__ - 1;
  const std::vector<weir::StreamInfo> opened = recorder.opened();
  ASSERT_EQ(opened.back().id, s.id());
  EXPECT_EQ(opened.back().where.line(), line);
  EXPECT_FALSE(opened.back().wrapped);
  EXPECT_FALSE(opened.back().shared);
  EXPECT_TRUE(recorder.shared().empty());
  static_cast<void>(s.native());
  static_cast<void>(s.native());
  EXPECT_EQ(recorder.shared(), Streams{s.id()});
  Recorder late;
  const std::vector<weir::StreamInfo> open = late.opened();
  const auto found = std::find_if(open.begin(), open.end(), [&](const auto& info) { return info.id == s.id(); });
  ASSERT_NE(found, open.end());
  EXPECT_TRUE(found->shared);
}

TEST_P(ObservedCommands, arrays_have_names_also_for_observers_that_come_later) {
  weir::Stream s(device());
  auto before = weir::zeros<int>(s, 10);
  before.set_name("before");
  Recorder recorder;
  const auto x = weir::zeros<int>(s, 10);
  x.set_name("x");
  x.slice(1, 3).set_name("vel");
  EXPECT_EQ(recorder.name(before.storage()->buffer), "before");
  EXPECT_EQ(recorder.name(x.storage()->buffer), "vel");
  const weir::BufferId gone = before.storage()->buffer;
  before = {};
  Recorder late;
  EXPECT_EQ(late.name(gone), "");
  s.synchronize();
}

//  a: [fails]|e     b: wait(e) [skipped]|f     c: wait(f)
TEST_P(ObservedCommands, failures_are_told_with_who_inherits_them_and_waits_that_throw) {
  Recorder recorder;
  Marker marker;
  weir::Stream a(device(), {.blocking = false}), b(device(), {.blocking = false}), c(device(), {.blocking = false});
  Gate gate;
  gate.hold(a);
  weir::host_call(a, [] { throw std::runtime_error("the weir leaks"); });
  b.wait(a);
  mark(b, marker);
  c.wait(b);
  gate.open();
  EXPECT_THROW(c.synchronize(), weir::Error);
  EXPECT_THROW(b.synchronize(), weir::Error);
  EXPECT_THROW(a.synchronize(), weir::Error);
  EXPECT_EQ(marker.value(), 0);
  ASSERT_TRUE(eventually([&] { return recorder.failed().size() >= 3; }));
  const auto failed = recorder.failed();
  ASSERT_EQ(failed.size(), 3u);
  const Streams streams{failed[0].stream, failed[1].stream, failed[2].stream};
  EXPECT_EQ(streams, (Streams{a.id(), b.id(), c.id()}));
  const Streams from{failed[0].from, failed[1].from, failed[2].from};
  EXPECT_EQ(from, (Streams{0, a.id(), b.id()}));
  EXPECT_EQ(failed[0].error, failed[1].error);
  EXPECT_EQ(failed[0].error, failed[2].error);
  ASSERT_EQ(recorder.waits().size(), 3u);
  for (const std::string& text : recorder.failures()) EXPECT_NE(text.find("the weir leaks"), std::string::npos) << text;
}

}  // namespace
}  // namespace weir_test
