// Every wrong input gets a clear error at the call; nothing is lost, nothing half-done, and the library works on.
#include "wrong_inputs.hpp"

#include <set>

#include "support/any_device.hpp"

namespace weir_test {

Room::Room(weir::Device where)
    : device(where),
      other(weir::devices(where.backend())[weir::devices(where.backend()).size() > 1 && where.index() == 0 ? 1 : 0]),
      stream(where, {.name = "worker"}),
      a(weir::full<int>(stream, 10, 1)),
      b(weir::full<int>(stream, 10, 2)),
      plane(weir::full<int>(stream, {3, 4}, 3)),
      pinned(weir::full<int>(weir::pinned, 10, 4)),
      pageable(weir::full<int>(weir::host, 10, 5)),
      pool(where, {.release_threshold = std::size_t{1} << 30, .max_size = std::size_t{64} << 20}),
      vector(10, 6) {
  stream.synchronize();
}

weir::StreamRef Room::ended_stream() const {
  const weir::Stream stream(device);
  return stream;
}
weir::EventRef Room::ended_event() const {
  const weir::Event event(device);
  return event;
}

namespace {

struct Case {
  weir::Device device;
  const WrongInput* input;
};

const std::vector<WrongInput>& all_inputs() {
  static const std::vector<WrongInput> all = [] {
    std::vector<WrongInput> inputs;
    for (auto part : {wrong_devices, wrong_streams, wrong_events, wrong_arrays, wrong_launches, wrong_algorithms,
                      wrong_copies, wrong_memory, wrong_graphs}) {
      for (WrongInput& input : part()) inputs.push_back(std::move(input));
    }
    return inputs;
  }();
  return all;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const weir::Device& device : weir::devices()) {
    for (const WrongInput& input : all_inputs()) all.push_back({device, &input});
  }
  return all;
}

void PrintTo(const Case& one, std::ostream* out) { *out << one.input->name << " on " << one.device.name(); }

/// Why an entry does not apply to a device; empty if it does.
std::string not_here(Needs needs, const Room& room) {
  switch (needs) {
    case Needs::two_devices: return room.other == room.device ? "needs two devices" : "";
    case Needs::no_cuda: return weir::devices("cuda").empty() ? "" : "there is a GPU";
    case Needs::cpu: return room.device.backend() == "cpu" ? "" : "of the CPU only";
    case Needs::pageable_out_of_reach:
      return room.device.properties().kernels_reach_pageable_memory ? "kernels reach pageable memory here" : "";
    case Needs::graphs: try { static_cast<void>(weir::capture(room.stream, [] {}));
      } catch (const weir::Error& error) {
        if (error.errc() == weir::Errc::not_supported) return error.what();
        throw;
      }
      return "";
    case Needs::nothing: break;
  }
  return "";
}

/// A launch, copies both ways, a fill and an allocation.
void expect_it_works(const Room& room) {
  weir::Stream stream(room.device);
  auto x = weir::from(stream, std::vector<int>{1, 2, 3, 4});
  weir::launch(stream, 4, AddOne{}, weir::inout(x));
  weir::fill(stream, x.slice(3, 4), 9);
  auto twin = x.clone(stream);
  EXPECT_EQ(twin.to_host(), (std::vector<int>{2, 3, 4, 9}));
  room.device.synchronize();
}

/// The arrays of the room are as they were made, whatever the entry tried; those that it ended or moved are left out.
void expect_nothing_changed(const Room& room) {
  for (const weir::Array<int>* array : {&room.a, &room.b, &room.plane, &room.pinned, &room.pageable}) {
    if (array->storage() == nullptr || array->storage()->freed) continue;
    const std::vector<int> values = array->to_host();
    EXPECT_EQ(values, std::vector<int>(values.size(), values.front()));
  }
}

class WrongInputs : public testing::TestWithParam<Case> {
 protected:
  weir::ScopedDevice scope_{GetParam().device};
};

TEST_P(WrongInputs, are_refused) {
  const WrongInput& input = *GetParam().input;
  const weir::Device device = GetParam().device;
  const std::size_t before = weir::default_pool(device).statistics().used;
  {
    Room room(device);
    const std::string reason = not_here(input.needs, room);
    if (!reason.empty()) GTEST_SKIP() << reason;
    const std::optional<weir::Error> error = error_of([&] { input.call(room); });
    ASSERT_TRUE(error) << "nothing was thrown";
    EXPECT_EQ(error->errc(), input.code) << error->what();
    for (const std::string& word : input.words) {
      EXPECT_NE(std::string_view(error->what()).find(word), std::string_view::npos)
          << "'" << word << "' is missing: " << error->what();
    }
    EXPECT_FALSE(error->operation().empty());
    EXPECT_FALSE(error->object().empty());
    expect_it_works(room);
    expect_nothing_changed(room);
  }
  device.synchronize();
  EXPECT_EQ(weir::default_pool(device).statistics().used, before) << "memory is lost";
}

INSTANTIATE_TEST_SUITE_P(on, WrongInputs, testing::ValuesIn(cases()), [](const testing::TestParamInfo<Case>& info) {
  return test_suffix(info.param.device.name() + "_" + info.param.input->name);
});

TEST(WrongInputTable, is_long_and_has_no_name_twice) {
  std::set<std::string> names;
  for (const WrongInput& input : all_inputs()) EXPECT_TRUE(names.insert(input.name).second) << input.name;
  EXPECT_GE(names.size(), 160u);
}

}  // namespace
}  // namespace weir_test
