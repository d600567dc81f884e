// Environment variables that Weir sets for CUDA and NCCL: before main(), since a variable that is set while another thread reads
// one may crash that thread.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include <weir/weir.hpp>

#include "backends/cuda/collectives/nccl_library.hpp"
#include "support/child.hpp"

namespace weir_test {
namespace {

std::vector<std::string> environment() {
  std::vector<std::string> all;
  for (char** at = environ; *at != nullptr; ++at) all.emplace_back(*at);
  return all;
}

WEIR_SCENE(cuda_leaves_the_environment) {
  const std::vector<std::string> before = environment();
  for (const char* name : {"CUDA_DEVICE_MAX_CONNECTIONS", "NCCL_RUNTIME_CONNECT", "NCCL_SET_STACK_SIZE"}) {
    insist(std::getenv(name) != nullptr, name);
  }
  const weir::Stream s(weir::devices("cuda").at(0));
  weir::zeros<int>(s, 16);
  s.synchronize();
  static_cast<void>(weir::cuda::nccl());
  insist(environment() == before, "nothing is set while threads run");
}

TEST(Environment, is_set_before_main_and_left_alone_afterwards) {
  EXPECT_TRUE(ended_well(play("cuda_leaves_the_environment")));
}

}  // namespace
}  // namespace weir_test
