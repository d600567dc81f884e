// Simulated devices: by name alone, like the GPU of a profile, and apart from every other device (C5).
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include <weir/sim.hpp>

#include "arrays_support.hpp"

using namespace weir_test;

namespace {

bool is_simulated(weir::Device device) { return device.backend() == "sim"; }

/// A profile's file for as long as this lives.
class ProfileFile {
 public:
  explicit ProfileFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() / ("weir_device_" + std::to_string(getpid()) + ".json")) {
    std::ofstream(path_) << text;
  }
  ~ProfileFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  std::string device() const { return "sim:" + path_.string(); }

 private:
  std::filesystem::path path_;
};

std::string with(std::string text, const std::string& part, const std::string& instead) {
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return at == std::string::npos ? text : text.replace(at, part.size(), instead);
}

}  // namespace

TEST(SimulatedDevices, are_there_for_who_names_them_alone) {
  const weir::Device named = weir::device("sim:h200");
  const std::vector<weir::Device> all = weir::devices();
  EXPECT_TRUE(std::none_of(all.begin(), all.end(), is_simulated));
  EXPECT_TRUE(weir::why_absent("sim").empty());
  const std::vector<weir::Device> simulated = weir::devices("sim");
  EXPECT_EQ(std::count(simulated.begin(), simulated.end(), named), 1);
  for (const std::string& profile : weir::sim::profile_names()) {
    EXPECT_EQ(std::count(simulated.begin(), simulated.end(), weir::device("sim:" + profile)), 1) << profile;
  }
  for (std::size_t i = 0; i < simulated.size(); ++i) EXPECT_EQ(simulated[i].index(), static_cast<int>(i));
}

TEST(SimulatedDevices, are_named_after_a_profile_and_a_number) {
  const weir::Device first = weir::device("sim:h200");
  const weir::Device second = weir::device("sim:h200:1");
  EXPECT_EQ(first.name(), "sim:h200");
  EXPECT_EQ(second.name(), "sim:h200:1");
  EXPECT_EQ(weir::device("sim:h200:0"), first);
  EXPECT_EQ(weir::device("sim:h200:1"), second);
  EXPECT_NE(first, second);
  EXPECT_TRUE(weir::can_access_peer(first, second));
  EXPECT_FALSE(weir::can_access_peer(first, weir::device("sim:cc30")));
  EXPECT_FALSE(weir::can_access_peer(first, first));
  const struct {
    const char *name, *message;
  } wrong[] = {{"sim", "named after its profile"},
               {"sim:", "named after its profile"},
               {"sim:h100", "there are cc30, fermi-1-engine, h200, kepler-2-engines"},
               {"sim:h200:x", "there is no profile"},
               {"sim:h200:64", "at most 64"},
               {"sim:/nowhere/card.json", "it cannot be read"}};
  for (const auto& one : wrong) {
    EXPECT_TRUE(fails_with(weir::Errc::unknown_device, [&] { (void)weir::device(one.name); },
                           {one.name, one.message, "sim:h200"}));
  }
}

TEST(SimulatedDevices, C5_have_the_properties_of_their_profile) {
  const weir::DeviceProperties& h200 = weir::device("sim:h200").properties();
  EXPECT_EQ(h200.name, "h200, simulated");
  EXPECT_EQ(h200.compute_capability, (weir::ComputeCapability{9, 0}));
  EXPECT_EQ(h200.multiprocessors, 132);
  EXPECT_EQ(h200.memory, 150'000'000'000u);
  EXPECT_EQ(h200.async_engine_count, 3);
  EXPECT_EQ(h200.max_resident_kernels, 128);
  EXPECT_EQ(h200.max_shared_bytes_per_block, 227u * 1024);
  const weir::DeviceProperties& kepler = weir::device("sim:kepler-2-engines").properties();
  EXPECT_EQ(kepler.compute_capability, (weir::ComputeCapability{3, 5}));
  EXPECT_EQ(kepler.async_engine_count, 2);
  EXPECT_EQ(kepler.multiprocessors, 4);
  EXPECT_EQ(weir::device("sim:fermi-1-engine").properties().async_engine_count, 1);
}

TEST(SimulatedDevices, C5_may_be_of_a_file) {
  const std::string text(weir::sim::profile_text("cc30"));
  {
    const ProfileFile file(with(text, "\"sms\": {\"value\": 4", "\"sms\": {\"value\": 7"));
    const weir::Device device = weir::device(file.device());
    EXPECT_EQ(device.name(), file.device());
    EXPECT_EQ(device.properties().multiprocessors, 7);
    EXPECT_NE(weir::device(file.device() + ":1"), device);
  }
  for (const auto& [part, instead, message] :
       std::vector<std::array<std::string, 3>>{{"\"sms\"", "\"smx\"", "device.smx: there is no such field"},
                                               {"\"unit\": \"count\"", "\"unit\": \"counts\"", "it is \"count\""},
                                               {"\"value\": 4", "\"value\": 4,\"value\": 5", "it is there twice"},
                                               {"}\n", "", "parse error at line"}}) {
    const ProfileFile file(with(text, part, instead));
    EXPECT_TRUE(fails_with(weir::Errc::unknown_device, [&] { (void)weir::device(file.device() + ":2"); }, {message}));
  }
}

TEST(SimulatedDevices, hold_no_more_than_the_memory_of_their_profile) {
  const weir::Stream s(weir::device("sim:cc30"));
  const weir::PoolRef pool = weir::default_pool(s.device());
  constexpr std::size_t gibibyte = std::size_t{1} << 30;
  EXPECT_TRUE(fails_with(weir::Errc::out_of_memory, [&] { (void)pool.allocate(s, 4 * gibibyte); }, {"sim:cc30"}));
  void* most = pool.allocate(s, 2 * gibibyte);
  EXPECT_TRUE(fails_with(weir::Errc::out_of_memory, [&] { (void)pool.allocate(s, 2 * gibibyte); }));
  pool.free(s, most);
  s.synchronize();
  pool.trim();
}

//   the host's device: [hold]------
//   legacy, simulated:       [mark]     it is behind no stream of another device
TEST(SimulatedDevices, have_a_legacy_stream_of_their_own) {
  const weir::Device first = weir::device("sim:h200"), second = weir::device("sim:h200:1");
  const weir::Stream held(weir::device("cpu"));
  const weir::Stream held_too(second);
  Gate gate;
  gate.hold_by_host_call(held);
  gate.hold_by_host_call(held_too);
  Marker marker;
  mark(weir::legacy_stream(first), marker);
  EXPECT_TRUE(returns_while_held(gate, [&] { first.synchronize(); }));
  EXPECT_EQ(marker.value(), 1);
  gate.open();
  held.synchronize();
  held_too.synchronize();
}

TEST(SimulatedDevices, own_their_memory) {
  const weir::Device first = weir::device("sim:h200"), second = weir::device("sim:h200:1");
  for (const weir::Device device : {first, second}) {
    const auto numbers = weir::zeros<int>(device, 3);
    const weir::PointerInfo info = weir::pointer_info(numbers.data());
    EXPECT_EQ(info.kind, weir::MemoryKind::device);
    EXPECT_EQ(info.device, device.index());
    EXPECT_EQ(numbers.device(), device);
  }
}
