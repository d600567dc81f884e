// Pinned memory for the integers that tests and kernels share.
#include "support/shared_words.hpp"

#include <mutex>
#include <vector>

namespace weir_test {

int* make_words(std::size_t count) {
  static std::mutex mutex;
  static auto* slabs = new std::vector<weir::Array<int>>;
  static std::size_t free_words = 0;
  constexpr std::size_t slab_words = 1 << 16;
  const std::lock_guard lock(mutex);
  if (count > slab_words) {
    slabs->insert(slabs->begin(), weir::zeros<int>(weir::pinned, count));
    return slabs->front().data();
  }
  if (count > free_words) {
    slabs->push_back(weir::zeros<int>(weir::pinned, slab_words));
    free_words = slab_words;
  }
  int* const words = slabs->back().data() + (slab_words - free_words);
  free_words -= count;
  return words;
}

}  // namespace weir_test
