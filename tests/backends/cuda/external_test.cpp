// Foreign work, which is called at once, may throw: the call throws that, and observers are told that it did not come.
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include <weir/weir.hpp>

#include "backends/fake_cuda/fake_cuda.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

class Refusals final : public weir::Observer {
 public:
  Refusals() { weir::attach(*this); }
  ~Refusals() override { weir::detach(*this); }
  void submitted(const weir::Command& command) override { told.push_back(command.id); }
  void refused(const weir::Refusal& refusal) override {
    if (refusal.told) refused_ids.push_back(refusal.command.id);
    why += refusal.error.what();
  }
  void ran(weir::CommandId, weir::StreamId, weir::Span) override { ++ran_count; }

  std::vector<weir::CommandId> told, refused_ids;
  std::string why;
  std::atomic<int> ran_count{0};
};

TEST(ForeignWork, that_throws_is_told_as_refused) {
  const weir::Device device = weir::devices("cuda").at(0);
  weir::Stream s(device, {.blocking = false});
  s.synchronize();
  Refusals observer;
  EXPECT_THROW(weir::external(s, [](weir::NativeStream) { throw std::runtime_error("the pump is broken"); }),
               std::runtime_error);
  ASSERT_EQ(observer.told.size(), 1u);
  EXPECT_EQ(observer.refused_ids, observer.told);
  EXPECT_NE(observer.why.find("the pump is broken"), std::string::npos) << observer.why;
  weir::external(s, [](weir::NativeStream) {});
  s.synchronize();
  EXPECT_EQ(observer.told.size(), 2u);
  EXPECT_EQ(observer.refused_ids.size(), 1u);
  EXPECT_TRUE(eventually([&] { return observer.ran_count == 1; })) << "the second alone ran";
}

}  // namespace
}  // namespace weir_test
