// The nodes of graphs: handles, kinds, and what can be read about them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <weir/launch.hpp>
#include <weir/op.hpp>
#include <weir/source_location.hpp>

namespace weir {

enum class NodeKind : std::uint8_t {
  launch,
  copy,
  fill,
  alloc,
  free,
  record,
  wait,
  host_call,
  external,
  graph,        ///< a child graph
  conditional,  ///< if, if/else, switch, while
  empty,        ///< only orders others
};
std::string_view to_text(NodeKind kind);

/// A node of one graph, by value: given by the GraphBuilder that the graph was made with, or by Graph::nodes().
class Node {
 public:
  Node() = default;
  /// The place in Graph::nodes().
  std::size_t index() const { return index_; }
  friend bool operator==(const Node&, const Node&) = default;

  /// For the library.
  Node(std::uint64_t graph, std::size_t index) : graph_(graph), index_(index) {}
  std::uint64_t graph() const { return graph_; }

 private:
  std::uint64_t graph_ = 0;
  std::size_t index_ = 0;
};

/// The first argument of changes that end in a parameter pack: a node and the user's line. Made implicitly.
class NodeArg {
 public:
  NodeArg(Node n, SourceLocation w = SourceLocation::current()) : node(n), where(w) {}

  Node node;
  SourceLocation where;
};

/// The node of a launch or of launch_blocks that knows its kernel's type, so that arguments alone update it.
template <class F>
class LaunchNode : public Node {
 public:
  explicit LaunchNode(Node node) : Node(node) {}
};

/// What can be read about a node.
struct NodeInfo {
  Node node;
  NodeKind kind = NodeKind::empty;
  std::string name;            ///< of the kernel or as given; else what it is
  std::string detail;          ///< sizes and the like
  SourceLocation where;        ///< the line that made it
  StreamId stream = 0;         ///< that it was captured on; 0 if built by hand
  std::string stream_name;     ///< empty if built by hand
  int priority = 0;            ///< of that stream
  std::vector<Node> depends;   ///< on these
  std::optional<Node> parent;  ///< the child graph or conditional node that it belongs to
  std::uint32_t branch = 0;    ///< which body of a conditional parent
  bool enabled = true;
};

namespace detail {
template <class F>
concept IsExtent = std::is_convertible_v<F, ExtentArg> || std::is_same_v<std::remove_cvref_t<F>, BlockExtent>;
/// What begins the arguments of a node's kernel, and is no kernel itself.
template <class... A>
inline constexpr bool begins_with_an_array = false;
template <class First, class... A>
inline constexpr bool begins_with_an_array<First, A...> =
    is_argument<std::remove_cvref_t<First>> || array_object<First> || is_view<std::remove_cvref_t<First>>;
template <class F, class... A>
constexpr bool binds_in_blocks() {
  return BindingOf<F, 1, std::index_sequence_for<A...>, A&&...>::template invocable<Block&>;
}
template <class F, class... A>
constexpr bool binds_by_index() {
  constexpr std::size_t rank = rank_of_kernel<F, A&&...>();
  using First = std::conditional_t<rank == 1, std::size_t, Index<rank>>;
  return BindingOf<F, rank, std::index_sequence_for<A...>, A&&...>::template invocable<First>;
}
/// Whether these are the arguments of a node's kernel.
template <class F, class... A>
concept BindsTo = begins_with_an_array<A...> || binds_by_index<F, A...>() || binds_in_blocks<F, A...>();
/// Whether a kernel is one for blocks: by what it declares, or, if that says nothing, by what it can be called with.
template <class F, class... A>
constexpr bool runs_in_blocks() {
  if constexpr (CallParameters<F>::known) {
    return std::is_same_v<typename ParameterAt<F, 0>::type, Block>;
  } else if constexpr (binds_by_index<F, A...>()) {
    return false;
  } else {
    return binds_in_blocks<F, A...>();
  }
}
}  // namespace detail

}  // namespace weir
