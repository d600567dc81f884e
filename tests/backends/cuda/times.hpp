// What the tests of commands' times have in common: an observer that keeps them, and how many events were recorded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include <weir/observer.hpp>
#include <weir/weir.hpp>

#include "backends/fake_cuda/fake_cuda.hpp"
#include "support/gate.hpp"

namespace weir_test {

using Source = weir::Span::Source;

inline weir::Device gpu() { return weir::devices("cuda").at(0); }

class Times final : public weir::Observer {
 public:
  Times() { weir::attach(*this, weir::Watch::times); }
  ~Times() override { weir::detach(*this); }
  void ran(weir::CommandId, weir::StreamId stream, weir::Span span) override {
    const std::lock_guard lock(mutex_);
    if (stream == stream_) spans_.push_back(span);
  }
  void ran_node(weir::CommandId, weir::StreamId stream, std::uint32_t, weir::Span span) override {
    const std::lock_guard lock(mutex_);
    if (stream == stream_) nodes_.push_back(span);
  }
  void of(weir::StreamRef stream) {
    const std::lock_guard lock(mutex_);
    stream_ = stream.id();
  }
  std::vector<weir::Span> all() {
    const std::lock_guard lock(mutex_);
    return spans_;
  }
  std::vector<weir::Span> nodes() {
    const std::lock_guard lock(mutex_);
    return nodes_;
  }
  bool has(std::size_t count) {
    return eventually([&] { return all().size() >= count; });
  }

 private:
  std::mutex mutex_;
  weir::StreamId stream_ = 0;
  std::vector<weir::Span> spans_;
  std::vector<weir::Span> nodes_;
};

struct Nothing {
  WEIR_KERNEL void operator()(std::size_t) const {}
};

/// By this thread: the library's own ones ask clocks by events, and end what earlier tests left.
inline std::uint64_t events_recorded_here() {
  return fake_cuda::calls_here("cudaEventRecord") + fake_cuda::calls_here("cuEventRecord");
}

/// On a device that has started.
inline weir::Stream started_stream() {
  weir::Stream s(gpu());
  weir::launch(s, 1, Nothing{});
  s.synchronize();
  return s;
}

}  // namespace weir_test
