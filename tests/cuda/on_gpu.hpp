// A fixture for the first GPU.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include <weir/weir.hpp>

#include "support/watchdog.hpp"

namespace weir_test {

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    const auto gpus = weir::devices("cuda");
    if (gpus.empty()) GTEST_SKIP() << "no GPU: " << weir::why_absent("cuda");
    device_ = gpus.front();
    scope_.emplace(*device_);
  }
  weir::Device device() const { return *device_; }

 private:
  std::optional<weir::Device> device_;
  std::optional<weir::ScopedDevice> scope_;
};

}  // namespace weir_test
