// Devices by name and number, their properties, and the default device of each host thread (C5, R177, R196).
#include <stdexcept>
#include <thread>

#include "arrays_support.hpp"

using namespace weir_test;

class Devices : public AnyDevice {};
ON_EVERY_DEVICE(Devices);

TEST_P(Devices, are_found_by_their_name) {
  const weir::Device same = weir::device(device().name());
  EXPECT_EQ(same, device());
  EXPECT_EQ(same.name(), device().name());
  EXPECT_EQ(same.index(), device().index());
}

TEST_P(Devices, are_listed_in_the_order_of_their_numbers) {
  const std::vector<weir::Device> all = weir::devices(device().backend());
  ASSERT_LT(static_cast<std::size_t>(device().index()), all.size());
  EXPECT_EQ(all[static_cast<std::size_t>(device().index())], device());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].index(), static_cast<int>(i));
}

TEST_P(Devices, a_backends_name_alone_means_its_first_device) {
  const std::string backend(device().backend());
  if (backend == "sim") GTEST_SKIP() << "simulated devices are named after their model";
  EXPECT_EQ(weir::device(backend), weir::devices(backend).front());
  EXPECT_EQ(weir::device(backend + ":0"), weir::devices(backend).front());
}

TEST_P(Devices, have_names_of_their_backend) { EXPECT_EQ(device().name().rfind(device().backend(), 0), 0u); }

TEST_P(Devices, that_do_not_exist_are_an_error_naming_those_that_do) {
  for (const char* name :
       {"", "gpu", "cpu:99", "cpu:-1", "cuda:99", "cpu:0x", "cpu: 0", " cpu", "CPU", "cpu:", ":0", "sim:nothing"}) {
    EXPECT_TRUE(fails_with(weir::Errc::unknown_device, [&] { (void)weir::device(name); },
                           {"weir::device", device().name(), "devices_names_test.cpp"}))
        << '"' << name << '"';
  }
}

TEST_P(Devices, properties_make_sense) {
  const weir::DeviceProperties& properties = device().properties();
  EXPECT_FALSE(properties.name.empty());
  EXPECT_EQ(properties.backend, device().backend());
  EXPECT_GE(properties.multiprocessors, 1);
  EXPECT_GT(properties.memory, std::size_t{1} << 20);
  EXPECT_GE(properties.max_resident_kernels, 1);
  EXPECT_GE(properties.async_engine_count, 0);
  EXPECT_LE(properties.stream_priorities.greatest, properties.stream_priorities.least);
  EXPECT_EQ(properties.stream_priorities.least, 0);
  EXPECT_GE(properties.max_threads_per_block, 1024u);
  EXPECT_GE(properties.max_shared_bytes_per_block, std::size_t{16} << 10);
  EXPECT_TRUE(properties.memory_pools);
  EXPECT_EQ(properties.concurrent_kernels, properties.max_resident_kernels > 1);
  if (on("cpu")) {
    EXPECT_EQ(properties.compute_capability, weir::ComputeCapability{});
  } else {
    EXPECT_GE(properties.compute_capability.major, 1);
  }
}

TEST_P(Devices, properties_are_read_once) {
  EXPECT_EQ(&device().properties(), &weir::device(device().name()).properties());
}

TEST_P(Devices, a_scope_makes_a_device_the_default_one_and_restores) {
  const weir::Device before = weir::default_device();
  for (const weir::Device& each : weir::devices()) {
    {
      const weir::ScopedDevice scope(each);
      EXPECT_EQ(weir::default_device(), each);
      {
        const weir::ScopedDevice inner(before.name());
        EXPECT_EQ(weir::default_device(), before);
      }
      EXPECT_EQ(weir::default_device(), each);
    }
    try {
      const weir::ScopedDevice scope(each);
      throw std::runtime_error("leave");
    } catch (const std::runtime_error&) {
    }
    EXPECT_EQ(weir::default_device(), before);
  }
}

TEST_P(Devices, a_scope_of_an_unknown_device_changes_nothing) {
  const weir::Device before = weir::default_device();
  EXPECT_TRUE(fails_with(weir::Errc::unknown_device, [] { const weir::ScopedDevice scope("gpu:7"); }));
  EXPECT_EQ(weir::default_device(), before);
}

// R196
TEST_P(Devices, the_default_one_belongs_to_a_host_thread) {
  weir::Device initial = device();
  std::thread([&] { initial = weir::default_device(); }).join();
  for (const weir::Device& each : weir::devices()) {
    const weir::ScopedDevice scope(each);
    std::thread([&] {
      EXPECT_EQ(weir::default_device(), initial);
      weir::set_default_device(weir::devices().back());
    }).join();
    EXPECT_EQ(weir::default_device(), each);
  }
}

TEST_P(Devices, streams_events_and_arrays_are_made_on_the_default_one) {
  EXPECT_EQ(weir::Stream().device(), device());
  EXPECT_EQ(weir::Event().device(), device());
  EXPECT_EQ(weir::TimedEvent().device(), device());
  EXPECT_EQ(weir::zeros<int>(3).device(), device());
  EXPECT_EQ(weir::get_stream().device(), device());
}

TEST_P(Devices, the_current_stream_is_remembered_for_each_of_them) {
  for (const weir::Device& each : weir::devices()) {
    weir::Stream stream(each);
    const weir::StreamRef before = weir::get_stream(each);
    weir::set_stream(stream);
    EXPECT_EQ(weir::get_stream(each), stream);
    for (const weir::Device& other : weir::devices()) {
      if (other != each) {
        EXPECT_NE(weir::get_stream(other), stream);
      }
    }
    weir::set_stream(before);
  }
}

TEST(Backends, that_do_not_exist_have_no_devices) {
  EXPECT_TRUE(weir::devices("abacus").empty());
  EXPECT_TRUE(weir::devices("").empty());
}

TEST(Backends, tell_why_they_are_absent) {
  EXPECT_TRUE(weir::why_absent("cpu").empty());
  for (const char* backend : {"cuda", "abacus"}) {
    EXPECT_EQ(weir::why_absent(backend).empty(), !weir::devices(backend).empty()) << backend;
  }
  if (weir::devices("cuda").empty()) {
    EXPECT_TRUE(
        fails_with(weir::Errc::unknown_device, [] { (void)weir::device("cuda:0"); }, {weir::why_absent("cuda")}));
  }
}

TEST(Devices, tell_why_they_are_absent) {
  EXPECT_EQ(weir::why_absent("cpu:0"), "");
  EXPECT_EQ(weir::why_absent("cpu:99"), "no such cpu device");
  EXPECT_EQ(weir::why_absent("cpu:x"), "'x' is not a device number");
  EXPECT_EQ(weir::why_absent("abacus:1"), weir::why_absent("abacus"));
  const std::string missing = "sim:/nowhere/card.json";
  const std::string why = weir::why_absent(missing);
  EXPECT_NE(why.find("cannot be read"), std::string::npos) << why;
  EXPECT_TRUE(fails_with(weir::Errc::unknown_device, [&] { (void)weir::device(missing); }, {why}));
}

TEST(Backends, of_every_process_include_the_cpu) {
  EXPECT_FALSE(weir::devices("cpu").empty());
  EXPECT_EQ(weir::device("cpu"), weir::devices("cpu").front());
}
