// An event behind what a queue had taken when somebody asked.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "backends/cuda/streams/stocks.hpp"

namespace weir::cuda {

/// Empty: nothing was pending. An event of the stock that goes back with this, or the queue's own, which stands for everything
/// before its capture began or its foreign stream went.
class EndMark {
 public:
  EndMark() = default;
  explicit EndMark(cudaEvent_t of_queue) : event_(of_queue) {}
  explicit EndMark(StockEvent&& taken) : taken_(std::move(taken)), event_(taken_.get()) {}

  explicit operator bool() const { return event_ != nullptr; }
  cudaEvent_t event() const { return event_; }

 private:
  StockEvent taken_;
  cudaEvent_t event_ = nullptr;
};

}  // namespace weir::cuda
