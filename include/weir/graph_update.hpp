// Changes to instantiated graphs that take kernels and arrays: the templates behind Graph::update and its siblings.
#pragma once

#include <type_traits>
#include <utility>

#include <weir/copy.hpp>
#include <weir/error.hpp>
#include <weir/graph.hpp>
#include <weir/host_call.hpp>
#include <weir/launch.hpp>

namespace weir {

namespace detail {

struct CoreGraph;

/// Takes one command as the new work of a node.
class GraphEdit {
 public:
  /// Without a line of the user's, that of the node. Throws invalid_handle, and invalid_value unless it is of this kind.
  GraphEdit(const Graph& graph, Node node, NodeKind kind, const char* operation, SourceLocation where);
  ~GraphEdit();
  GraphEdit(const GraphEdit&) = delete;
  GraphEdit& operator=(const GraphEdit&) = delete;

  /// Where to make the command: the next replay uses it when the call returns.
  StreamRef stream() const;
  SourceLocation where() const { return where_; }
  /// Of the node as it is: extent and name. Throws invalid_value if it runs over blocks, or does not.
  Extent extent() const;
  BlockExtent block_extent() const;
  /// The functor inside a launch's closure. Throws invalid_value if its type has another name.
  const void* functor(std::string_view type) const;
  /// To be called after the command. Throws invalid_value if there was none.
  void check_taken() const;

  /// For the library.
  void take(const Command& command);

 private:
  bool take_arguments(const Command& command);

  CoreGraph& graph_;
  std::size_t node_;
  const char* operation_;
  SourceLocation where_;
  bool taken_ = false;
};

}  // namespace detail

namespace detail {

template <class F>
constexpr void check_update() {
  static_assert(
      !std::is_arithmetic_v<std::remove_cvref_t<F>>,
      "weir::Graph::update takes, after the node, arguments that the node's kernel can be called with, or a new "
      "kernel and its arguments, or an extent, a kernel and its arguments");
}

/// The node's launch again, with its extent, of whichever kind the kernel is.
template <class F, class... A>
void launch_again(const GraphEdit& edit, SourceLocation where, F&& kernel, A&&... arguments) {
  in_name_of("weir::Graph::update", [&] {
    if constexpr (runs_in_blocks<std::decay_t<F>, A...>()) {
      launch_blocks(edit.stream(), edit.block_extent(), where, static_cast<F&&>(kernel),
                    static_cast<A&&>(arguments)...);
    } else {
      launch(edit.stream(), edit.extent(), where, static_cast<F&&>(kernel), static_cast<A&&>(arguments)...);
    }
  });
}

}  // namespace detail

template <class F, class... A>
  requires detail::BindsTo<F, A...>
void Graph::update(const LaunchNode<F>& node, A&&... arguments) {
  detail::GraphEdit edit(*this, node, NodeKind::launch, "weir::Graph::update", {});
  const F& functor = *static_cast<const F*>(edit.functor(detail::type_name<F>()));
  detail::launch_again(edit, edit.where(), functor, static_cast<A&&>(arguments)...);
  edit.check_taken();
}

template <class F, class... A>
  requires(!detail::IsExtent<F>)
void Graph::update(NodeArg node, F&& kernel, A&&... arguments) {
  detail::check_update<F>();
  detail::GraphEdit edit(*this, node.node, NodeKind::launch, "weir::Graph::update", node.where);
  detail::launch_again(edit, node.where, static_cast<F&&>(kernel), static_cast<A&&>(arguments)...);
  edit.check_taken();
}

template <class F, class... A>
void Graph::update(NodeArg node, ExtentArg extent, F&& kernel, A&&... arguments) {
  detail::check_update<F>();
  detail::GraphEdit edit(*this, node.node, NodeKind::launch, "weir::Graph::update", extent.where);
  detail::in_name_of("weir::Graph::update", [&] {
    detail::launch(edit.stream(), extent.extent, extent.where, static_cast<F&&>(kernel),
                   static_cast<A&&>(arguments)...);
  });
  edit.check_taken();
}

template <std::same_as<BlockExtent> E, class F, class... A>
void Graph::update(NodeArg node, const E& extent, F&& kernel, A&&... arguments) {
  detail::GraphEdit edit(*this, node.node, NodeKind::launch, "weir::Graph::update", node.where);
  detail::in_name_of("weir::Graph::update", [&] {
    detail::launch_blocks(edit.stream(), extent, node.where, static_cast<F&&>(kernel), static_cast<A&&>(arguments)...);
  });
  edit.check_taken();
}

template <class F, class... A>
void Graph::update(NodeArg node, const NamedBlockExtent& extent, F&& kernel, A&&... arguments) {
  update(node, extent.extent(), static_cast<F&&>(kernel), static_cast<A&&>(arguments)...);
}

template <class To, class From>
void Graph::update_copy(Node node, To&& to, From&& from, SourceLocation where) {
  detail::check_copy_types<To, From>();
  detail::GraphEdit edit(*this, node, NodeKind::copy, "weir::Graph::update_copy", where);
  detail::in_name_of("weir::Graph::update_copy",
                     [&] { detail::copy(edit.stream(), detail::endpoint(to), detail::endpoint(from), where); });
  edit.check_taken();
}

template <class To, class V>
void Graph::update_fill(Node node, To&& to, const V& value, SourceLocation where) {
  using T = detail::element_of<To>;
  detail::check_fill_types<T, V>();
  detail::GraphEdit edit(*this, node, NodeKind::fill, "weir::Graph::update_fill", where);
  const T element = static_cast<T>(value);
  detail::in_name_of("weir::Graph::update_fill",
                     [&] { detail::fill(edit.stream(), detail::endpoint(to), &element, where); });
  edit.check_taken();
}

template <class F>
void Graph::update_host_call(Node node, F&& function, SourceLocation where) {
  detail::GraphEdit edit(*this, node, NodeKind::host_call, "weir::Graph::update_host_call", where);
  detail::in_name_of("weir::Graph::update_host_call",
                     [&] { detail::enqueue_function<false>(edit.stream(), where, static_cast<F&&>(function)); });
  edit.check_taken();
}

}  // namespace weir
