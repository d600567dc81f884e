// The shape of a graph as text, and the kernels of meetings.
#include "support/graphs.hpp"

namespace weir_test {

namespace {

std::string level(const std::vector<weir::NodeInfo>& nodes, const weir::Node* parent, std::uint32_t branch) {
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

struct Attend {
  WEIR_KERNEL void operator()(std::size_t, int* present, int* all_met, int* given_up, int wanted) const {
    if (add_to_word(present, 1) + 1 == wanted) store_word(all_met, 1);
    if (!wait_for_word(all_met)) store_word(given_up, 1);
  }
};

}  // namespace

std::string topology(const weir::Graph& graph) { return level(graph.nodes(), nullptr, 0); }

void Meeting::attend(weir::StreamRef stream) {
  weir::launch(stream, weir::Extent{.size = 1, .name = "meet"}, Attend{}, words_, words_ + 1, words_ + 2, wanted_);
}

weir::Node Meeting::attend(weir::GraphBuilder& builder) {
  return builder.launch(weir::Extent{.size = 1, .name = "meet"}, Attend{}, words_, words_ + 1, words_ + 2, wanted_);
}

}  // namespace weir_test
