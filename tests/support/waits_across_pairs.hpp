// A pair of devices, one of which waits for the other, in a way that the test program names.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <stdexcept>
#include <string>

#include <weir/weir.hpp>

#include "support/any_device.hpp"

namespace weir_test {

struct Across {
  weir::Device waiting;
  weir::Device recording;
  void (*wait)(weir::StreamRef, weir::EventRef);
  const char* missing = nullptr;  ///< why there is no such pair here
};
inline void PrintTo(const Across& across, std::ostream* out) {
  *out << across.waiting.name() << " waits for " << across.recording.name();
}
inline std::string name_of_across(const testing::TestParamInfo<Across>& info) {
  if (info.param.missing != nullptr) return "none";
  return test_suffix(info.param.waiting.name() + "_waits_for_" + info.param.recording.name());
}

class WaitsAcross : public testing::TestWithParam<Across> {
 protected:
  void SetUp() override {
    if (GetParam().missing != nullptr) GTEST_SKIP() << GetParam().missing;
  }
  void TearDown() override {
    for (const weir::Device& device : {waiting(), recording()}) {
      try {
        device.synchronize();
      } catch (const weir::Error& error) {
        if (!HasFailure()) ADD_FAILURE() << "the test left a failure behind: " << error.what();
      }
    }
  }
  weir::Device waiting() const { return GetParam().waiting; }
  weir::Device recording() const { return GetParam().recording; }
  static void wait(weir::StreamRef stream, weir::EventRef event) { GetParam().wait(stream, event); }
  static void wait(weir::StreamRef stream, weir::StreamRef other) { wait(stream, other.record()); }
  static void fail(weir::StreamRef stream) {
    weir::host_call(stream, [] { throw std::runtime_error("the pipe burst"); });
  }
};

}  // namespace weir_test
