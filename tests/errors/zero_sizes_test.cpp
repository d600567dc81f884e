// Sizes of zero are legal wherever a size is: nothing happens, and nothing is thrown.
#include "wrong_inputs.hpp"

#include "support/any_device.hpp"

namespace weir_test {

class ZeroSizes : public AnyDevice {};

namespace {

struct ZeroSize {
  const char* name;
  std::function<void(Room&)> call;
};

const std::vector<ZeroSize>& zero_sizes() {
  static const std::vector<ZeroSize> all = {
      {"launch over nothing", [](Room& r) { weir::launch(r.stream, 0, AddOne{}, weir::inout(r.a)); }},
      {"launch over no rows",
       [](Room& r) {
         weir::launch(r.stream, {0, 4}, AddOneToPlane{}, weir::inout(r.plane));
       }},
      {"launch over no columns",
       [](Room& r) {
         weir::launch(r.stream, {3, 0}, AddOneToPlane{}, weir::inout(r.plane));
       }},
      {"launch with a view of nothing", [](Room& r) { weir::launch(r.stream, 0, AddOne{}, weir::View<int>()); }},
      {"launch with an empty array",
       [](Room& r) { weir::launch(r.stream, 0, AddOne{}, weir::inout(weir::empty<int>(r.stream, 0))); }},
      {"kernel that ignores a view of nothing",
       [](Room& r) { weir::launch(r.stream, 3, LookAt{}, weir::View<int>()); }},
      {"fill nothing", [](Room& r) { weir::fill(r.stream, r.a.slice(4, 4), 9); }},
      {"fill a view of nothing", [](Room& r) { weir::fill(r.stream, weir::View<int>(), 9); }},
      {"copy nothing", [](Room& r) { weir::copy(r.stream, r.a.slice(2, 2), r.b.slice(7, 7)); }},
      {"copy nothing over itself", [](Room& r) { weir::copy(r.stream, r.a.slice(2, 2), r.a.slice(2, 2)); }},
      {"copy an empty vector", [](Room& r) { weir::copy(r.stream, r.a.slice(0, 0), std::vector<int>()); }},
      {"copy an empty vector without a stream", [](Room& r) { weir::copy(r.a.slice(0, 0), std::vector<int>()); }},
      {"copy views of nothing", [](Room& r) { weir::copy(r.stream, weir::View<int>(), weir::View<const int>()); }},
      {"transform nothing", [](Room& r) { weir::transform(r.stream, r.a.slice(0, 0), r.b.slice(0, 0), Same{}); }},
      {"inclusive_scan nothing", [](Room& r) { weir::inclusive_scan(r.stream, r.a.slice(0, 0), r.b.slice(0, 0)); }},
      {"zeros of nothing", [](Room& r) { EXPECT_TRUE(weir::zeros<int>(r.stream, 0).to_host().empty()); }},
      {"pinned array of nothing", [](Room&) { EXPECT_TRUE(weir::full<int>(weir::pinned, 0, 3).span().empty()); }},
      {"host array of nothing",
       [](Room&) {
         EXPECT_TRUE(weir::ones<int>(weir::host, {5, 0}).to_host().empty());
       }},
      {"from an empty vector", [](Room& r) { EXPECT_TRUE(weir::from(r.stream, std::vector<int>()).empty()); }},
      {"clone of nothing", [](Room& r) { EXPECT_TRUE(r.a.slice(3, 3).clone(r.stream).empty()); }},
      {"slices of nothing", [](Room& r) { EXPECT_TRUE(r.a.slice(10, 10).slice(0, 0).to_host().empty()); }},
      {"new shape of nothing",
       [](Room& r) {
         EXPECT_TRUE(r.a.slice(3, 3).reshape({0, 7}).to_host().empty());
       }},
      {"transposed of nothing",
       [](Room& r) { EXPECT_EQ(r.plane.slice(1, 1).transposed().shape(), weir::Shape(4, 0)); }},
      {"free of an empty array",
       [](Room& r) {
         auto none = weir::empty<int>(r.stream, 0);
         none.free();
       }},
      {"allocate no bytes", [](Room& r) { EXPECT_EQ(r.pool.allocate(r.stream, 0), nullptr); }},
      {"free null", [](Room& r) { r.pool.free(r.stream, nullptr); }},
      {"trim an empty pool", [](Room& r) { r.pool.trim(); }},
      {"host function that uses nothing",
       [](Room& r) {
         weir::host_call(
             r.stream, [] {}, weir::in(r.a.slice(0, 0)));
       }},
  };
  return all;
}

}  // namespace

TEST_P(ZeroSizes, are_no_work_and_no_error) {
  for (const ZeroSize& entry : zero_sizes()) {
    SCOPED_TRACE(entry.name);
    Room room(device());
    try {
      entry.call(room);
      room.stream.synchronize();
    } catch (const weir::Error& error) {
      ADD_FAILURE() << error.what();
    }
    EXPECT_EQ(room.a.to_host(), std::vector<int>(10, 1));
    EXPECT_EQ(room.b.to_host(), std::vector<int>(10, 2));
    EXPECT_EQ(room.plane.to_host(), std::vector<int>(12, 3));
    EXPECT_EQ(room.pool.statistics().used, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(on, ZeroSizes, testing::ValuesIn(weir::devices()), name_of_device);

}  // namespace weir_test
