// Fixtures: a test for every device of this machine, and a test for two devices of each backend.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include <weir/weir.hpp>

#include "support/watchdog.hpp"

namespace weir {
inline void PrintTo(const Device& device, std::ostream* out) { *out << device.name(); }
}  // namespace weir

namespace weir_test {

/// "cuda:0" as the end of a test's name: "cuda_0".
inline std::string test_suffix(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}
inline std::string name_of_device(const testing::TestParamInfo<weir::Device>& info) {
  return test_suffix(info.param.name());
}
inline std::string name_of_backend(const testing::TestParamInfo<std::string>& info) { return test_suffix(info.param); }

/// Those of this machine, or those that WEIR_TEST_DEVICES names: "sim:h200,sim:cc30".
inline std::vector<weir::Device> devices() {
  const char* wanted = std::getenv("WEIR_TEST_DEVICES");
  if (wanted == nullptr) return weir::devices();
  std::vector<weir::Device> named;
  std::istringstream list(wanted);
  for (std::string name; std::getline(list, name, ',');) named.push_back(weir::device(name));
  return named;
}

/// The backends that offer a device here.
inline std::vector<std::string> backends() {
  std::vector<std::string> names;
  for (const weir::Device& device : devices()) {
    const std::string name(device.backend());
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

/// A test runs once for each device, which is the default device meanwhile. Every test leaves the device idle, without
/// a failure that nobody asked about.
class AnyDevice : public testing::TestWithParam<weir::Device> {
 protected:
  weir::Device device() const { return GetParam(); }
  bool on(std::string_view backend) const { return device().backend() == backend; }
  void TearDown() override {
    try {
      device().synchronize();
    } catch (const weir::Error& error) {
      if (!HasFailure()) ADD_FAILURE() << "the test left a failure behind: " << error.what();
    }
  }

 private:
  weir::ScopedDevice scope_{GetParam()};
};

/// A test runs once for each backend, with its first two devices.
class TwoDevices : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    devices_ = weir::devices(GetParam());
    if (devices_.size() < 2) {
      GTEST_SKIP() << "needs two devices of backend '" << GetParam() << "', and there is one"
                   << (GetParam() == "cpu" ? ": set WEIR_CPU_DEVICES=2" : "");
    }
  }
  void TearDown() override {
    for (const weir::Device& device : devices_) {
      try {
        device.synchronize();
      } catch (const weir::Error& error) {
        if (!HasFailure()) ADD_FAILURE() << "the test left a failure behind: " << error.what();
      }
    }
  }
  weir::Device first() const { return devices_.at(0); }
  weir::Device second() const { return devices_.at(1); }

 private:
  std::vector<weir::Device> devices_;
};

}  // namespace weir_test

/// After the tests of a suite that derives from AnyDevice, or from TwoDevices. Outside of namespaces.
#define ON_EVERY_DEVICE(Suite) \
  INSTANTIATE_TEST_SUITE_P(on, Suite, testing::ValuesIn(weir_test::devices()), weir_test::name_of_device)
#define ON_EVERY_BACKEND(Suite) \
  INSTANTIATE_TEST_SUITE_P(on, Suite, testing::ValuesIn(weir_test::backends()), weir_test::name_of_backend)
