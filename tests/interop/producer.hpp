// Another library: tensors in its own memory, with a deleter that tells how often it was called.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include <weir/dlpack.hpp>

namespace weir_test {

/// Gives away one tensor of floats 0, 1, 2, ... Lives longer than the tensor.
class Producer {
 public:
  using Versioned = weir::dlpack::DLManagedTensorVersioned;
  using Unversioned = weir::dlpack::DLManagedTensor;

  explicit Producer(std::vector<std::int64_t> shape, std::vector<std::int64_t> strides = {}, std::size_t memory = 64)
      : shape_(std::move(shape)), strides_(std::move(strides)), values_(memory) {
    for (std::size_t i = 0; i < memory; ++i) values_[i] = static_cast<float>(i);
  }

  Versioned* versioned() {
    versioned_.version = {1, 0};
    versioned_.manager_ctx = this;
    versioned_.deleter = [](Versioned* self) { static_cast<Producer*>(self->manager_ctx)->deleted(); };
    versioned_.dl_tensor = tensor();
    return &versioned_;
  }
  Unversioned* unversioned() {
    unversioned_.manager_ctx = this;
    unversioned_.deleter = [](Unversioned* self) { static_cast<Producer*>(self->manager_ctx)->deleted(); };
    unversioned_.dl_tensor = tensor();
    return &unversioned_;
  }

  int deletions() const { return deletions_; }
  /// Called by the deleter, on its thread.
  void on_delete(std::function<void()> action) { action_ = std::move(action); }
  float* values() { return values_.data(); }

 private:
  weir::dlpack::DLTensor tensor() {
    return {values_.data(),
            {weir::dlpack::kDLCPU, 0},
            static_cast<std::int32_t>(shape_.size()),
            weir::dlpack::data_type<float>,
            shape_.data(),
            strides_.empty() ? nullptr : strides_.data(),
            0};
  }
  void deleted() {
    if (action_) action_();
    ++deletions_;
  }

  std::vector<std::int64_t> shape_;
  std::vector<std::int64_t> strides_;
  std::vector<float> values_;
  Versioned versioned_{};
  Unversioned unversioned_{};
  std::function<void()> action_;
  std::atomic<int> deletions_{0};
};

}  // namespace weir_test
