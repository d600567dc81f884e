// Where NCCL is not, the error says what to install.
#include "backends/cuda/collectives/nccl_library.hpp"

#include <gtest/gtest.h>

#include <weir/collectives.hpp>

#include "support/errors.hpp"

namespace weir_test {
namespace {

TEST(NcclLibrary, one_that_is_not_there_or_is_another_one_is_a_sentence) {
  const std::string missing = weir::cuda::open_nccl("libnccl_of_nobody.so.2").why_absent;
  EXPECT_NE(missing.find("libnccl_of_nobody.so.2"), std::string::npos) << missing;
  EXPECT_NE(missing.find("install"), std::string::npos) << missing;
  const std::string other = weir::cuda::open_nccl("libpthread.so.0").why_absent;
  EXPECT_NE(other.find("has no ncclCommInitAll"), std::string::npos) << other;
}

}  // namespace
}  // namespace weir_test
