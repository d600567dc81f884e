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

/// What is updated most, by a shorter way: other values for a launch whose kernel and arrays stay. Whatever it does not take,
/// a GraphEdit takes, or refuses.
class ArgumentEdit {
 public:
  ArgumentEdit(const Graph& graph, Node node, const Kernel& kernel) noexcept;
  ~ArgumentEdit() {
    if (graph_ != nullptr) end();
  }
  ArgumentEdit(const ArgumentEdit&) = delete;
  ArgumentEdit& operator=(const ArgumentEdit&) = delete;

  /// The node's, of this kernel; null: it goes the other way.
  const void* closure() const { return closure_; }
  /// What the node uses, one for each of its kernel's views.
  const Region* uses() const { return uses_; }
  /// Whether the node uses this memory so, and a kernel on its device reaches it.
  bool keeps(const Region& use, const Storage* storage, Access access) const {
    return storage != nullptr && use.buffer == storage->buffer && use.access == access && storage->device == device_ &&
           storage->kind == MemoryKind::device && !storage->freed.load(std::memory_order_relaxed);
  }
  /// The closure with other values, and the same views. False: nothing has changed.
  bool take(const void* closure);

 private:
  void end() noexcept;

  CoreGraph* graph_ = nullptr;  ///< locked
  std::size_t node_ = 0;
  const void* closure_ = nullptr;
  const Region* uses_ = nullptr;
  const DeviceState* device_ = nullptr;
};

template <class T, class U, std::size_t R>
bool is_view_of(const AnyView<T>& array, const View<U, R>& view) {
  if (array.data() != view.data() || array.rank() != R) return false;
  for (std::size_t d = 0; d < R; ++d) {
    if (array.size(d) != view.size(d) || array.stride(d) != view.stride(d)) return false;
  }
  return true;
}

/// Whether an argument is the view that the closure has; of others there is nothing to ask. Goes to the next use behind it.
template <class B, class A>
bool keeps_view(const ArgumentEdit& edit, const Region*& use, const B& before, const A& argument) {
  if constexpr (is_argument<A>) {
    return edit.keeps(*use++, argument.storage, argument.access) && is_view_of(argument.view, before);
  } else if constexpr (array_object<A>) {
    return edit.keeps(*use++, argument.storage(), Access::read) && is_view_of(argument.plain_view(), before);
  } else {
    return true;
  }
}
template <std::size_t I, class B, class A>
Slot<I, B> slot_again(const Slot<I, B>& before, const A& argument) {
  if constexpr (is_argument<A> || array_object<A>) {
    return before;
  } else {
    return {argument};
  }
}

/// Not raw views, which are looked at when they are bound, and nothing that becomes something else.
template <class B, class A>
inline constexpr bool is_bound_again = is_argument<A> || array_object<A> || (std::is_same_v<A, B> && !is_view<A>);

template <class C, class Indices, class... A>
struct Rebinder;
template <class F, class... B, std::size_t... I, class... A>
struct Rebinder<Closure<F, B...>, std::index_sequence<I...>, A...> {
  using C = Closure<F, B...>;
  static constexpr bool possible =
      std::is_trivially_copyable_v<C> && std::is_copy_constructible_v<C> && (is_bound_again<B, A> && ...);

  static bool take(ArgumentEdit& edit, const A&... arguments) {
    const C& before = *static_cast<const C*>(edit.closure());
    [[maybe_unused]] const Region* use = edit.uses();
    if (!(keeps_view(edit, use, C::template get<I>(before.arguments), arguments) && ...)) return false;
    const C now{before.kernel, {slot_again<I, B>(before.arguments, arguments)...}};
    return edit.take(&now);
  }
};

template <class C, class F, std::size_t rank, bool in_blocks>
constexpr const Kernel& kernel_of() {
  if constexpr (in_blocks) {
    return block_kernel<C, F, ThisCompiler>;
  } else {
    return element_kernel<C, F, rank, ThisCompiler>;
  }
}

/// Other arguments for the node's launch by an ArgumentEdit. False: nothing has changed.
template <class F, class... A>
bool take_arguments(const Graph& graph, Node node, const std::remove_reference_t<A>&... arguments) {
  using Indices = std::index_sequence_for<A...>;
  constexpr bool in_blocks = runs_in_blocks<F, A...>();
  constexpr std::size_t rank = in_blocks ? 1 : rank_of_kernel<F, A&&...>();
  using First = std::conditional_t<in_blocks, Block&, std::conditional_t<rank == 1, std::size_t, Index<rank>>>;
  using Binding = BindingOf<F, rank, Indices, A&&...>;
  using C = typename Binding::closure;
  if constexpr (Binding::template invocable<First>) {  // the other way says why not
    using Again = Rebinder<C, Indices, std::remove_cvref_t<A>...>;
    if constexpr (Again::possible) {
      ArgumentEdit edit(graph, node, kernel_of<C, F, rank, in_blocks>());
      return edit.closure() != nullptr && Again::take(edit, arguments...);
    }
  }
  return false;
}

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
  if (detail::take_arguments<F, A...>(*this, node, arguments...)) return;
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

template <class F, class... A>
void Graph::update(NodeArg node, const NamedExtent& extent, F&& kernel, A&&... arguments) {
  update(node, extent.extent(), static_cast<F&&>(kernel), static_cast<A&&>(arguments)...);
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
