// What is left of stocks for others when a thread that has taken many waits for room, and the housekeeping thread is late (R214).
#include <gtest/gtest.h>

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <weir/weir.hpp>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/streams/signals.hpp"
#include "backends/cuda/streams/stocks.hpp"
#include "backends/cuda/streams/threads.hpp"
#include "backends/fake_cuda/fake_cuda.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

using weir::cuda::Stocks;

weir::Device gpu() { return weir::devices("cuda").at(0); }

/// The housekeeping thread does nothing while this lives, and is through with what it was given then: it fills stocks that are about to
/// be gone.
class LateHousekeeping {
 public:
  LateHousekeeping() {
    auto task = weir::cuda::make_task([this] {
      begun_.set_value();
      go_on_.get_future().wait();
    });
    weir::cuda::TaskThread::housekeeper().post(task);
    begun_.get_future().wait();
  }
  ~LateHousekeeping() {
    go_on_.set_value();
    auto task = weir::cuda::make_task([this] { over_.set_value(); });
    weir::cuda::TaskThread::housekeeper().post(task);
    over_.get_future().wait();
  }
  LateHousekeeping(const LateHousekeeping&) = delete;
  LateHousekeeping& operator=(const LateHousekeeping&) = delete;

 private:
  std::promise<void> begun_, go_on_, over_;
};

/// Whether another thread is through with it while one waits for room in its stream.
bool ends_beside_a_full_stream(const std::function<void()>& work) {
  const weir::Stream full(gpu(), {.blocking = false});
  const Marker marker;
  auto gate = std::make_unique<Gate>();
  gate->hold(full);
  std::thread filler([&] {
    for (int i = 0; i < 1100; ++i) mark(full, marker, i);
  });
  EXPECT_TRUE(eventually([] { return fake_cuda::waiting_for_room() > 0; }));
  std::atomic<bool> over{false};
  std::thread thread([&] {
    work();
    over = true;
  });
  const bool ended = eventually([&] { return over.load(); });
  gate->open();
  filler.join();
  thread.join();
  return ended;
}

struct StocksOfThreadsThatWait : testing::Test {
  void SetUp() override { weir::Stream(gpu()).synchronize(); }
};

TEST_F(StocksOfThreadsThatWait, have_events_left) {
  Stocks stocks(weir::cuda::CudaDevice::at(0));
  stocks.fill({});
  std::vector<cudaEvent_t> taken;
  const auto take = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) taken.push_back(stocks.take_event(false, {}));
  };
  const LateHousekeeping late;
  take(Stocks::events + 100);
  EXPECT_TRUE(ends_beside_a_full_stream([&] { take(50); }));
  for (cudaEvent_t event : taken) stocks.give_event(event, false);
}

TEST_F(StocksOfThreadsThatWait, have_streams_left) {
  Stocks stocks(weir::cuda::CudaDevice::at(0));
  stocks.fill({});
  std::vector<cudaStream_t> taken;
  const auto take = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) taken.push_back(stocks.take_stream(true, 0, "test", "test", {}));
  };
  const LateHousekeeping late;
  take(Stocks::streams + 10);
  EXPECT_TRUE(ends_beside_a_full_stream([&] { take(8); }));
  for (cudaStream_t stream : taken) stocks.give_stream(stream, true, 0);
}

// A thread that calls collectives takes one for each, and may be who lets the full stream go on.
TEST_F(StocksOfThreadsThatWait, have_words_for_two_streams_that_are_full) {
  weir::cuda::Signals& signals = weir::cuda::Signals::instance();
  signals.fill({});
  std::vector<weir::cuda::SignalWord*> taken;
  const LateHousekeeping late;
  EXPECT_TRUE(ends_beside_a_full_stream([&] {
    for (int i = 0; i < 2 * 1024; ++i) taken.push_back(&signals.take_word({}));
  }));
  for (weir::cuda::SignalWord* word : taken) {
    word->reached = word->awaited;
    signals.give_word(*word);
  }
}

}  // namespace
}  // namespace weir_test
