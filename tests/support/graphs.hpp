// Tests of graphs: their shape as text, and kernels that meet only if they run at the same time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <weir/weir.hpp>

#include "support/any_device.hpp"
#include "support/shared_words.hpp"

namespace weir_test {

namespace graphs_detail {
inline std::string level(const std::vector<weir::NodeInfo>& nodes, const weir::Node* parent, std::uint32_t branch) {
  std::string text;
  for (const weir::NodeInfo& node : nodes) {
    if (node.parent.has_value() != (parent != nullptr)) continue;
    if (parent != nullptr && (*node.parent != *parent || node.branch != branch)) continue;
    text += (text.empty() ? "" : "; ") + node.name;
    for (std::size_t i = 0; i < node.depends.size(); ++i) {
      text += (i == 0 ? "<" : ",") + nodes.at(node.depends[i].index()).name;
    }
    for (std::uint32_t b = 0; b < 8; ++b) {
      const std::string body = level(nodes, &node.node, b);
      if (!body.empty()) text += " {" + body + "}";
    }
  }
  return text;
}
}  // namespace graphs_detail

/// "a; b<a; c<a,b": the nodes in order, each with what it depends on; bodies in braces.
inline std::string topology(const weir::Graph& graph) { return graphs_detail::level(graph.nodes(), nullptr, 0); }

struct Attend {
  WEIR_KERNEL void operator()(std::size_t, int* present, int* all_met, int wanted) const {
    if (add_to_word(present, 1) + 1 == wanted) store_word(all_met, 1);
    wait_for_word(all_met);
  }
};

/// Kernels that each wait until `wanted` of them run at the same time.
class Meeting {
 public:
  explicit Meeting(int wanted) : words_(make_words(2)), wanted_(wanted) {}
  void attend(weir::StreamRef stream) {
    weir::launch(stream, weir::Extent{.size = 1, .name = "meet"}, Attend{}, words_, words_ + 1, wanted_);
  }
  auto attend(weir::GraphBuilder& builder) {
    return builder.launch(weir::Extent{.size = 1, .name = "meet"}, Attend{}, words_, words_ + 1, wanted_);
  }
  bool met() const { return load_word(words_) == wanted_; }
  void reset() {
    store_word(words_, 0);
    store_word(words_ + 1, 0);
  }

 private:
  int* words_;
  int wanted_;
};

}  // namespace weir_test
