// Arrays as DLPack tensors: what the consumer sees, when, and for how long.
#include <gtest/gtest.h>

#include <complex>
#include <vector>

#include <weir/dlpack.hpp>
#include <weir/weir.hpp>

#include "support/errors.hpp"
#include "support/gate.hpp"

namespace {

using weir_test::fails_with;
using weir_test::Gate;
using weir_test::Marker;
namespace dl = weir::dlpack;

/// What a consumer does when it is through with a tensor.
template <class M>
void drop(M* tensor) {
  tensor->deleter(tensor);
}

const weir::Device cpu = weir::device("cpu");

TEST(DlpackExport, describes_a_dense_array) {
  const weir::Stream s(cpu);
  const auto a = weir::zeros<float>(s, {3, 5});
  auto* tensor = weir::to_dlpack(a);
  EXPECT_EQ(tensor->version.major, 1u);
  EXPECT_EQ(tensor->flags, 0u);
  const dl::DLTensor& t = tensor->dl_tensor;
  EXPECT_EQ(t.data, a.data());
  EXPECT_EQ(t.byte_offset, 0u);
  EXPECT_EQ(t.device.device_type, dl::kDLCPU);
  EXPECT_EQ(t.device.device_id, 0);
  ASSERT_EQ(t.ndim, 2);
  EXPECT_EQ(t.dtype, (dl::DLDataType{dl::kDLFloat, 32, 1}));
  EXPECT_EQ(std::vector(t.shape, t.shape + 2), (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(std::vector(t.strides, t.strides + 2), (std::vector<std::int64_t>{5, 1}));
  drop(tensor);
}

TEST(DlpackExport, describes_a_strided_slice_in_elements) {
  const weir::Stream s(cpu);
  const auto a = weir::zeros<double>(s, {8, 6});
  const auto part = a.slice({{2, 8, 3}, {1, 5}}).transposed();
  auto* tensor = weir::to_dlpack<dl::DLManagedTensor>(part);
  const dl::DLTensor& t = tensor->dl_tensor;
  EXPECT_EQ(t.data, a.data() + 13);
  EXPECT_EQ(std::vector(t.shape, t.shape + 2), (std::vector<std::int64_t>{4, 2}));
  EXPECT_EQ(std::vector(t.strides, t.strides + 2), (std::vector<std::int64_t>{1, 18}));
  drop(tensor);
}

TEST(DlpackExport, knows_the_element_types_of_the_specification) {
  EXPECT_EQ(dl::data_type<std::int8_t>, (dl::DLDataType{dl::kDLInt, 8, 1}));
  EXPECT_EQ(dl::data_type<std::uint64_t>, (dl::DLDataType{dl::kDLUInt, 64, 1}));
  EXPECT_EQ(dl::data_type<double>, (dl::DLDataType{dl::kDLFloat, 64, 1}));
  EXPECT_EQ(dl::data_type<bool>, (dl::DLDataType{dl::kDLBool, 8, 1}));
  EXPECT_EQ(dl::data_type<std::complex<float>>, (dl::DLDataType{dl::kDLComplex, 64, 1}));
}

TEST(DlpackExport, of_const_elements_or_of_in_is_read_only) {
  const auto a = weir::zeros<int>(weir::host, 4);
  auto* tensor = weir::to_dlpack(weir::in(a));
  EXPECT_EQ(tensor->flags, dl::flag_read_only);
  const auto again = weir::from_dlpack<const int>(tensor);  // and so is what it becomes
  auto* second = weir::to_dlpack(again);
  EXPECT_EQ(second->flags, dl::flag_read_only);
  drop(second);
  EXPECT_TRUE(fails_with(weir::Errc::not_supported, [&] { drop(weir::to_dlpack<dl::DLManagedTensor>(weir::in(a))); },
                         {"read-only"}));
}

TEST(DlpackExport, of_no_elements_has_no_address) {
  const weir::Stream s(cpu);
  const auto a = weir::empty<float>(s, {0, 4});
  auto* tensor = weir::to_dlpack(a);
  EXPECT_EQ(tensor->dl_tensor.data, nullptr);
  EXPECT_EQ(tensor->dl_tensor.shape[1], 4);
  drop(tensor);
}

TEST(DlpackExport, keeps_the_memory_until_the_deleter) {
  const weir::Stream s(cpu);
  const weir::Pool pool(cpu);
  const std::size_t before = pool.statistics().used;
  auto a = weir::empty<int>(s, 1000, pool);
  weir::fill(s, a, 7);
  auto* tensor = weir::to_dlpack(a);
  a = {};
  EXPECT_GT(pool.statistics().used, before);
  EXPECT_EQ(static_cast<const int*>(tensor->dl_tensor.data)[999], 7);
  drop(tensor);
  EXPECT_EQ(pool.statistics().used, before);
}

TEST(DlpackExport, for_none_returns_when_the_arrays_work_is_done) {
  const weir::Stream s(cpu);
  Gate gate;
  const auto a = weir::zeros<int>(s, 8);
  gate.hold(s);
  weir::fill(s, a, 3);
  EXPECT_TRUE(weir_test::blocks_until_open(cpu, gate, [&] {
    auto* tensor = weir::to_dlpack(a);
    EXPECT_EQ(static_cast<const int*>(tensor->dl_tensor.data)[7], 3);
    drop(tensor);
  }));
}

TEST(DlpackExport, for_none_waits_for_every_stream_that_was_given_the_array) {
  const weir::Stream home(cpu);
  const weir::Stream other(cpu, {.blocking = false});
  Gate gate;
  const auto pinned = weir::zeros<int>(weir::pinned, 8);
  const auto a = weir::zeros<int>(home, 8);
  home.synchronize();
  gate.hold(other);
  weir::fill(other, a, 4);
  weir::copy(other, pinned, a);
  EXPECT_TRUE(weir_test::blocks_until_open(cpu, gate, [&] {
    auto* tensor = weir::to_dlpack(pinned);
    EXPECT_EQ(static_cast<const int*>(tensor->dl_tensor.data)[7], 4);
    drop(tensor);
  }));
}

/// Keeps what the host has waited for.
class Waits : public weir::Observer {
 public:
  Waits() { weir::attach(*this, weir::Watch::host); }
  ~Waits() override { weir::detach(*this); }
  void waited(const weir::HostWait& wait) override { all.push_back(wait); }
  std::vector<weir::HostWait> all;
};

TEST(DlpackExport, for_none_tells_observers_each_stream_that_it_waited_for) {
  const weir::Stream home(cpu);
  const weir::Stream other(cpu, {.blocking = false});
  const auto a = weir::zeros<int>(home, 8);
  other.wait(home);
  weir::fill(other, a, 4);
  Waits waits;
  drop(weir::to_dlpack(a));
  ASSERT_EQ(waits.all.size(), 2u);
  for (const weir::HostWait& wait : waits.all) {
    EXPECT_EQ(wait.source, weir::HostWait::Source::to_dlpack);
    EXPECT_EQ(wait.kind, weir::HostWait::Kind::stream);
    EXPECT_EQ(wait.backend, "cpu");
  }
  EXPECT_NE(waits.all[0].stream, waits.all[1].stream);
  for (const weir::StreamId stream : {home.id(), other.id()}) {
    EXPECT_TRUE(waits.all[0].stream == stream || waits.all[1].stream == stream);
  }
}

TEST(DlpackExport, for_minus_1_does_not_wait) {
  const weir::Stream s(cpu);
  Gate gate;
  const auto a = weir::zeros<int>(s, 8);
  gate.hold(s);
  EXPECT_TRUE(weir_test::returns_while_held(gate, [&] { drop(weir::to_dlpack(a, -1)); }));
}

//   home:  hold ... fill
//   other:            \ wait, mark
TEST(DlpackExport, for_a_stream_of_weir_makes_that_stream_wait_and_not_the_host) {
  const weir::Stream home(cpu);
  const weir::Stream other(cpu, {.blocking = false});
  Gate gate;
  Marker marker;
  const auto a = weir::zeros<int>(home, 8);
  home.synchronize();
  gate.hold(home);
  weir::fill(home, a, 5);
  dl::DLManagedTensorVersioned* tensor = nullptr;
  ASSERT_TRUE(weir_test::returns_while_held(gate, [&] { tensor = weir::to_dlpack(a, weir::StreamRef(other)); }));
  weir_test::mark(other, marker);
  EXPECT_TRUE(weir_test::stays(cpu, [&] { return marker.value() == 0; }));
  gate.open();
  other.synchronize();
  EXPECT_EQ(static_cast<const int*>(tensor->dl_tensor.data)[7], 5);
  drop(tensor);
}

TEST(DlpackExport, for_a_stream_of_weir_keeps_the_memory_for_that_streams_work) {
  const weir::Stream home(cpu);
  const weir::Stream other(cpu, {.blocking = false});
  const weir::Pool pool(cpu);
  Gate gate;
  auto a = weir::empty<int>(home, 1 << 12, pool);
  auto* tensor = weir::to_dlpack(a, weir::StreamRef(other));
  int* data = static_cast<int*>(tensor->dl_tensor.data);
  gate.hold(other);
  a = {};
  drop(tensor);
  // The block is not given out again while `other` may still use it.
  const auto b = weir::empty<int>(home, 1 << 12, pool);
  EXPECT_NE(b.data(), data);
  gate.open();
}

TEST(DlpackExport, of_host_memory_refuses_native_streams) {
  const weir::Stream s(cpu);
  const auto a = weir::zeros<int>(s, 8);
  for (const std::int64_t number : {0, 1, 2, 4096, -2}) {
    EXPECT_TRUE(
        fails_with(weir::Errc::invalid_value, [&] { drop(weir::to_dlpack(a, number)); }, {"weir::to_dlpack", "None"}))
        << number;
  }
  EXPECT_EQ(dl::stream_number(s), std::nullopt);
}

TEST(DlpackExport, of_an_array_that_is_gone_is_refused) {
  const weir::Stream s(cpu);
  auto a = weir::zeros<int>(s, 8);
  const auto part = a.slice(0, 4);
  a.free();
  EXPECT_TRUE(fails_with(weir::Errc::already_freed, [&] { drop(weir::to_dlpack(part)); }, {"weir::to_dlpack"}));
  const weir::Array<int> none;
  EXPECT_TRUE(fails_with(weir::Errc::invalid_handle, [&] { drop(weir::to_dlpack(none)); }, {"weir::to_dlpack"}));
}

}  // namespace
