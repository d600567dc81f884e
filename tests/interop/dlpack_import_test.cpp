// DLPack tensors as slices: in place, and handed back when nobody uses them.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include <weir/dlpack.hpp>
#include <weir/weir.hpp>

#include "producer.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace {

using weir_test::error_of;
using weir_test::eventually;
using weir_test::fails_with;
using weir_test::Gate;
using weir_test::Producer;
namespace dl = weir::dlpack;

const weir::Device cpu = weir::device("cpu");

struct Double {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<float> x) const { x[i] *= 2; }
};

TEST(DlpackImport, uses_the_producers_memory_in_place) {
  Producer producer({6});
  {
    const weir::Stream s(cpu);
    const auto x = weir::from_dlpack<float>(producer.versioned(), s);
    EXPECT_EQ(x.data(), producer.values());
    weir::launch(s, x.size(), Double{}, weir::inout(x));
    s.synchronize();
    EXPECT_EQ(producer.values()[5], 10.0f);
    EXPECT_EQ(producer.deletions(), 0);
  }
  EXPECT_TRUE(eventually([&] { return producer.deletions() == 1; }));
}

TEST(DlpackImport, takes_the_struct_of_before_1_0_too) {
  Producer producer({6});
  { EXPECT_EQ(weir::from_dlpack<float>(producer.unversioned())[3], 3.0f); }
  EXPECT_EQ(producer.deletions(), 1);
}

TEST(DlpackImport, of_host_memory_is_pageable_or_the_memory_of_a_cpu_device) {
  Producer producer({6});
  EXPECT_EQ(weir::from_dlpack<float>(producer.versioned()).kind(), weir::MemoryKind::pageable);
  const weir::Stream s(cpu);
  const auto x = weir::from_dlpack<float>(producer.versioned(), s);
  EXPECT_EQ(x.kind(), weir::MemoryKind::device);
  EXPECT_EQ(x.device(), cpu);
  EXPECT_EQ(x.stream(), s);
}

TEST(DlpackImport, keeps_strides_and_offset) {
  Producer producer({2, 3}, {1, 10});
  auto* tensor = producer.versioned();
  tensor->dl_tensor.byte_offset = 5 * sizeof(float);
  const auto x = weir::from_dlpack<float>(tensor);
  EXPECT_EQ(x.shape(), weir::Shape(2, 3));
  EXPECT_FALSE(x.contiguous());
  EXPECT_EQ(x.host_view()(1, 2), 26.0f);
}

TEST(DlpackImport, takes_0_dimensions_as_one_element_and_elements_that_share_memory_as_const) {
  Producer scalar({});
  EXPECT_EQ(weir::from_dlpack<float>(scalar.versioned()).shape(), weir::Shape(1));
  Producer broadcast({4, 2}, {0, 1});
  EXPECT_EQ(weir::from_dlpack<const float>(broadcast.versioned()).host_view()(3, 1), 1.0f);
}

TEST(DlpackImport, without_elements_is_handed_back_too) {
  Producer producer({0, 4});
  auto* tensor = producer.versioned();
  tensor->dl_tensor.data = nullptr;
  { EXPECT_EQ(weir::from_dlpack<float>(tensor).size(), 0u); }
  EXPECT_EQ(producer.deletions(), 1);
}

TEST(DlpackImport, is_handed_back_once_when_the_last_slice_is_gone) {
  Producer producer({8});
  std::optional<weir::Slice<float>> part;
  {
    const auto x = weir::from_dlpack<float>(producer.versioned());
    part = x.slice(2, 4);
  }
  EXPECT_EQ(producer.deletions(), 0);
  EXPECT_EQ((*part)[0], 2.0f);
  part.reset();
  EXPECT_EQ(producer.deletions(), 1);
}

TEST(DlpackImport, is_handed_back_only_after_the_work_that_was_given_it) {
  Producer producer({8});
  const weir::Stream s(cpu);
  Gate gate;
  {
    const auto x = weir::from_dlpack<float>(producer.versioned(), s);
    gate.hold(s);
    weir::launch(s, x.size(), Double{}, weir::inout(x));
  }  // returns: nobody waits
  EXPECT_TRUE(weir_test::stays(cpu, [&] { return producer.deletions() == 0; }));
  float at_deletion = 0;
  producer.on_delete([&] { at_deletion = producer.values()[7]; });
  gate.open();
  EXPECT_TRUE(eventually([&] { return producer.deletions() == 1; }));
  EXPECT_EQ(at_deletion, 14.0f);
}

TEST(DlpackImport, is_handed_back_only_after_the_copies_of_other_streams) {
  Producer producer({8});
  const weir::Stream s(cpu, {.blocking = false});
  const auto target = weir::empty<float>(s, 8);
  Gate gate;
  {
    const auto x = weir::from_dlpack<float>(producer.versioned(), weir::legacy_stream(cpu));
    gate.hold(s);
    weir::copy(s, target, x);
  }
  EXPECT_TRUE(weir_test::stays(cpu, [&] { return producer.deletions() == 0; }));
  gate.open();
  EXPECT_TRUE(eventually([&] { return producer.deletions() == 1; }));
}

// held: [hold]--[uses a tensor that is dropped]
// s:    [hold]--[uses another one]             handed back when s is through
TEST(DlpackImport, is_handed_back_although_a_held_stream_uses_another_tensor) {
  Producer theirs({8});
  Producer mine({8});
  const weir::Stream held(cpu, {.blocking = false});
  const weir::Stream s(cpu, {.blocking = false});
  Gate gate_held, gate_s;
  gate_held.hold(held);
  gate_s.hold(s);
  {
    const auto x = weir::from_dlpack<float>(theirs.versioned(), held);
    weir::launch(held, x.size(), Double{}, weir::inout(x));
  }
  {
    const auto x = weir::from_dlpack<float>(mine.versioned(), s);
    weir::launch(s, x.size(), Double{}, weir::inout(x));
  }
  gate_s.open();
  EXPECT_TRUE(eventually([&] { return mine.deletions() == 1; }));
  EXPECT_FALSE(gate_held.is_open());
  EXPECT_EQ(theirs.deletions(), 0);
  gate_held.open();
  EXPECT_TRUE(eventually([&] { return theirs.deletions() == 1; }));
}

// s: [hold]--[uses the tensor]      t: [hold]--[uses the tensor]
TEST(DlpackImport, is_handed_back_once_when_the_last_of_several_streams_is_through) {
  Producer producer({8});
  const weir::Stream s(cpu, {.blocking = false});
  const weir::Stream t(cpu, {.blocking = false});
  Gate gate_s, gate_t;
  gate_s.hold(s);
  gate_t.hold(t);
  {
    const auto x = weir::from_dlpack<float>(producer.versioned(), s);
    weir::launch(s, x.size(), Double{}, weir::inout(x));
    weir::launch(t, x.size(), Double{}, weir::inout(x));
  }
  gate_t.open();
  t.synchronize();
  EXPECT_TRUE(weir_test::stays(cpu, [&] { return producer.deletions() == 0; }));
  gate_s.open();
  EXPECT_TRUE(eventually([&] { return producer.deletions() == 1; }));
  EXPECT_EQ(producer.values()[7], 28.0f);
}

// The deleter may call Weir, and wait: it runs on no thread that runs commands.
TEST(DlpackImport, is_handed_back_where_the_deleter_may_wait_for_the_device) {
  Producer producer({8});
  std::optional<weir::Error> refused;
  producer.on_delete([&] { refused = error_of([] { weir::Device(cpu).synchronize(); }); });
  const weir::Stream s(cpu);
  Gate gate;
  gate.hold(s);
  {
    const auto x = weir::from_dlpack<float>(producer.versioned(), s);
    weir::launch(s, x.size(), Double{}, weir::inout(x));
  }
  gate.open();
  EXPECT_TRUE(eventually([&] { return producer.deletions() == 1; }));
  EXPECT_FALSE(refused.has_value()) << refused->what();
}

TEST(DlpackImport, is_not_handed_back_inside_a_host_function) {
  Producer producer({8});
  std::optional<weir::Error> refused;
  producer.on_delete([&] { refused = error_of([] { weir::get_stream(cpu); }); });
  const weir::Stream s(cpu);
  {
    auto x = weir::from_dlpack<float>(producer.versioned());
    weir::host_call(s, [x = std::move(x)]() mutable { const auto last = std::move(x); });
  }
  EXPECT_TRUE(eventually([&] { return producer.deletions() == 1; }));
  EXPECT_FALSE(refused.has_value()) << refused->what();
  s.synchronize();
}

TEST(DlpackImport, needs_no_deleter) {
  Producer producer({8});
  auto* tensor = producer.versioned();
  tensor->deleter = nullptr;
  EXPECT_EQ(weir::from_dlpack<float>(tensor).size(), 8u);
}

TEST(DlpackImport, of_an_export_is_the_same_memory) {
  const weir::Stream s(cpu);
  const weir::Pool pool(cpu);
  {
    auto a = weir::empty<float>(s, {4, 4}, pool);
    weir::fill(s, a, 6.0f);
    const auto b = weir::from_dlpack<float>(weir::to_dlpack(a.transposed()));
    EXPECT_EQ(b.data(), a.data());
    a = {};
    EXPECT_EQ(b.host_view()(3, 3), 6.0f);
  }
  EXPECT_EQ(pool.statistics().used, 0u);
}

// What a program sees that includes <dlpack/dlpack.h>: other types with the same bytes.
namespace theirs {
enum DLDeviceType : std::int32_t { kDLCPU = 1 };
struct DLDevice {
  DLDeviceType device_type;
  std::int32_t device_id;
};
struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};
}  // namespace theirs

TEST(DlpackImport, takes_and_gives_the_types_of_the_common_header) {
  const auto a = weir::full(weir::host, 5, 2.5);
  auto* tensor = weir::to_dlpack<theirs::DLManagedTensor>(a);
  EXPECT_EQ(tensor->dl_tensor.dtype.bits, 64);
  EXPECT_EQ(tensor->dl_tensor.shape[0], 5);
  EXPECT_EQ(weir::from_dlpack<double>(tensor)[4], 2.5);
}

struct Wrong {
  const char* what;
  weir::Errc code;
  void (*spoil)(Producer::Versioned&);
  const char* word;
};

TEST(DlpackImport, refuses_what_it_cannot_use_and_leaves_it_to_the_caller) {
  const Wrong wrongs[] = {
      {"type", weir::Errc::invalid_value, [](auto& t) { t.dl_tensor.dtype.bits = 64; }, "float64"},
      {"lanes", weir::Errc::invalid_value, [](auto& t) { t.dl_tensor.dtype.lanes = 4; }, "float32x4"},
      {"version", weir::Errc::invalid_value, [](auto& t) { t.version.major = 2; }, "version is 2"},
      {"read-only", weir::Errc::wrong_memory, [](auto& t) { t.flags = dl::flag_read_only; }, "const"},
      {"rank", weir::Errc::wrong_shape, [](auto& t) { t.dl_tensor.ndim = 5; }, "5 dimensions"},
      {"stride", weir::Errc::not_supported, [](auto& t) { t.dl_tensor.strides[0] = -1; }, "negative"},
      {"stride 0", weir::Errc::not_supported, [](auto& t) { t.dl_tensor.strides[0] = 0; }, "stride 0"},
      {"size", weir::Errc::size_overflow, [](auto& t) { t.dl_tensor.shape[0] = -4; }, "-4"},
      {"address", weir::Errc::misaligned, [](auto& t) { t.dl_tensor.byte_offset = 2; }, "multiple of 4"},
      {"null", weir::Errc::null_view, [](auto& t) { t.dl_tensor.data = nullptr; }, "no memory"},
      {"device", weir::Errc::not_supported,
       [](auto& t) { t.dl_tensor.device.device_type = static_cast<dl::DLDeviceType>(7); }, "type 7"},
      {"GPU", weir::Errc::unknown_device,
       [](auto& t) {
         t.dl_tensor.device = {dl::kDLCUDA, 99};
       },
       "cuda:99"},
  };
  for (const Wrong& wrong : wrongs) {
    Producer producer({8}, {1});
    auto* tensor = producer.versioned();
    wrong.spoil(*tensor);
    EXPECT_TRUE(fails_with(wrong.code, [&] { static_cast<void>(weir::from_dlpack<float>(tensor)); },
                           {"weir::from_dlpack", wrong.word}))
        << wrong.what;
    EXPECT_EQ(producer.deletions(), 0) << wrong.what;
  }
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [] {
    static_cast<void>(weir::from_dlpack<float>(static_cast<Producer::Versioned*>(nullptr)));
  }));
}

}  // namespace
