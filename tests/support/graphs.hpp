// Tests of graphs: their shape as text, and kernels that meet only if they run at the same time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <weir/weir.hpp>

#include "support/any_device.hpp"
#include "support/shared_words.hpp"

namespace weir_test {

/// "a; b<a; c<a,b": the nodes in order, each with what it depends on; bodies in braces.
std::string topology(const weir::Graph& graph);

/// Kernels that each wait until `wanted` of them run at the same time.
class Meeting {
 public:
  explicit Meeting(int wanted) : words_(make_words(3)), wanted_(wanted) {}
  void attend(weir::StreamRef stream);
  weir::Node attend(weir::GraphBuilder& builder);
  bool met() const { return load_word(words_) == wanted_ && load_word(words_ + 2) == 0; }
  void reset() {
    store_word(words_, 0);
    store_word(words_ + 1, 0);
    store_word(words_ + 2, 0);
  }

 private:
  int* words_;
  int wanted_;
};

}  // namespace weir_test
