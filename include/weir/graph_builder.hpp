// Graphs built by hand: nodes and dependencies, explicit or inferred from what the nodes read and write.
#pragma once

#include <concepts>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <utility>

#include <weir/algorithm.hpp>
#include <weir/copy.hpp>
#include <weir/error.hpp>
#include <weir/graph.hpp>
#include <weir/graph_control.hpp>
#include <weir/host_call.hpp>
#include <weir/launch.hpp>

namespace weir {

/// How nodes come to depend on each other.
enum class Dependencies : std::uint8_t {
  explicit_only,  ///< by depends() alone
  inferred,       ///< also on earlier nodes whose in, out and inout arrays they conflict with
};

/// Makes a graph node by node. Calls take what weir::launch, copy, fill, ... take, without a stream, and check it at once;
/// nothing runs. A node depends on nothing until depends() says so, or on what it conflicts with if dependencies are
/// inferred. Arrays are kept alive. A call that throws leaves the graph as it was; if the body of a conditional node throws,
/// the node and everything in it are removed. Thread rule: one thread at a time; any number of builders.
class GraphBuilder {
 public:
  explicit GraphBuilder(Device device, Dependencies dependencies = Dependencies::explicit_only,
                        SourceLocation where = SourceLocation::current());
  /// On the default device.
  explicit GraphBuilder(Dependencies dependencies = Dependencies::explicit_only,
                        SourceLocation where = SourceLocation::current());
  GraphBuilder(GraphBuilder&&) noexcept;
  GraphBuilder& operator=(GraphBuilder&&) noexcept;
  ~GraphBuilder();

  /// As the functions of namespace weir, but each makes a node.
  template <std::derived_from<StreamRef> S, class... A>
  Node launch(const S&, A&&...) {
    return refuse_stream<S>();
  }
  template <std::derived_from<StreamRef> S, class... A>
  Node launch_blocks(const S&, A&&...) {
    return refuse_stream<S>();
  }
  template <std::derived_from<StreamRef> S, class To, class From>
  Node copy(const S&, To&&, From&&) {
    return refuse_stream<S>();
  }
  template <std::derived_from<StreamRef> S, class To, class V>
  Node fill(const S&, To&&, const V&) {
    return refuse_stream<S>();
  }
  template <class F, class... A>
  LaunchNode<std::decay_t<F>> launch(ExtentArg extent, F&& kernel, A&&... arguments) {
    return LaunchNode<std::decay_t<F>>(make("weir::GraphBuilder::launch", extent.where, [&] {
      detail::launch(stream(), extent.extent, extent.where, static_cast<F&&>(kernel), static_cast<A&&>(arguments)...);
    }));
  }
  template <class F, class... A>
  LaunchNode<std::decay_t<F>> launch(const NamedExtent& extent, F&& kernel, A&&... arguments) {
    return launch(extent.extent(), static_cast<F&&>(kernel), static_cast<A&&>(arguments)...);
  }
  template <class F, class... A>
  LaunchNode<std::decay_t<F>> launch_blocks(BlockExtentArg extent, F&& kernel, A&&... arguments) {
    return LaunchNode<std::decay_t<F>>(make("weir::GraphBuilder::launch_blocks", extent.where, [&] {
      detail::launch_blocks(stream(), extent.extent, extent.where, static_cast<F&&>(kernel),
                            static_cast<A&&>(arguments)...);
    }));
  }
  template <class F, class... A>
  LaunchNode<std::decay_t<F>> launch_blocks(const BlockExtentHere& extent, F&& kernel, A&&... arguments) {
    return launch_blocks(BlockExtentArg(extent.extent(), extent.where), static_cast<F&&>(kernel),
                         static_cast<A&&>(arguments)...);
  }
  template <detail::copyable_memory To, detail::copyable_memory From>
  Node copy(To&& to, From&& from, SourceLocation where = SourceLocation::current()) {
    return make("weir::GraphBuilder::copy", where,
                [&] { weir::copy(stream(), static_cast<To&&>(to), static_cast<From&&>(from), where); });
  }
  template <detail::copyable_memory To, class V>
  Node fill(To&& to, const V& value, SourceLocation where = SourceLocation::current()) {
    return make("weir::GraphBuilder::fill", where, [&] { weir::fill(stream(), static_cast<To&&>(to), value, where); });
  }
  /// The function is called once in each replay.
  template <class F>
  Node host_call(F&& function, SourceLocation where = SourceLocation::current()) {
    return make("weir::GraphBuilder::host_call", where,
                [&] { detail::enqueue_function<false>(stream(), where, static_cast<F&&>(function)); });
  }
  /// With what it reads and writes declared: in(x), out(x), inout(x), the first of which gives the line.
  template <class F, class... U>
    requires(sizeof...(U) > 0 && !(std::is_same_v<U, SourceLocation> || ...))
  Node host_call(F&& function, const U&... uses) {
    const SourceLocation where = detail::line_of(uses...);
    return make("weir::GraphBuilder::host_call", where,
                [&] { detail::enqueue_function<false>(stream(), where, static_cast<F&&>(function), uses...); });
  }
  /// An array whose contents begin at this node. Graph and array own the memory together: it is freed with the last of both.
  template <class T>
  std::pair<Array<T>, Node> allocate(const Shape& shape, SourceLocation where = SourceLocation::current()) {
    Array<T> array;
    const Node node =
        make("weir::GraphBuilder::allocate", where, [&] { array = weir::empty<T>(Place(stream(), where), shape); });
    return {std::move(array), node};
  }
  /// The end of the contents of an array that this builder allocated, or another graph, whose launches begin them again (R138 refuses
  /// all others: invalid_value).
  template <class T>
  Node free(Array<T>& array, SourceLocation where = SourceLocation::current()) {
    return make("weir::GraphBuilder::free", where, [&] { array.free(stream(), where); });
  }
  /// A copy of a graph, as it is now.
  Node graph(const Graph& child, SourceLocation where = SourceLocation::current());
  /// What `body(stream)` puts into the stream that it is given, as one node, a child graph: for algorithms, and for all else
  /// that takes a stream.
  template <class Body>
  Node capture(Body&& body, SourceLocation where = SourceLocation::current()) {
    static_assert(std::is_invocable_v<Body&, StreamRef>, "weir::GraphBuilder::capture calls body(stream)");
    const Stream own = stream_of_capture("weir::GraphBuilder::capture", where);
    // The body's calls are the user's own.
    return graph(weir::capture(StreamArg(own, where), [&] { body(StreamRef(own)); }), where);
  }
  /// weir::reduce, inclusive_scan, exclusive_scan and transform, as a node each; other algorithms by capture().
  template <class X, class T, class Op = Plus>
  Node reduce(const ArrayBase<X>& x, const ArrayBase<T>& result, Op op = {},
              SourceLocation where = SourceLocation::current()) {
    return make_by_capture("weir::GraphBuilder::reduce", where, [&](StreamArg s) { weir::reduce(s, x, result, op); });
  }
  template <class X, class T, class Op = Plus>
  Node inclusive_scan(const ArrayBase<X>& x, const ArrayBase<T>& y, Op op = {},
                      SourceLocation where = SourceLocation::current()) {
    return make_by_capture("weir::GraphBuilder::inclusive_scan", where,
                           [&](StreamArg s) { weir::inclusive_scan(s, x, y, op); });
  }
  template <class X, class T, class Op = Plus>
  Node exclusive_scan(const ArrayBase<X>& x, const ArrayBase<T>& y, std::type_identity_t<T> init = T{}, Op op = {},
                      SourceLocation where = SourceLocation::current()) {
    return make_by_capture("weir::GraphBuilder::exclusive_scan", where,
                           [&](StreamArg s) { weir::exclusive_scan(s, x, y, init, op); });
  }
  template <class X, class Y, class F>
  Node transform(const ArrayBase<X>& x, const ArrayBase<Y>& y, F f, SourceLocation where = SourceLocation::current()) {
    return make_by_capture("weir::GraphBuilder::transform", where, [&](StreamArg s) { weir::transform(s, x, y, f); });
  }
  template <class A, class B, class Y, class F>
  Node transform(const ArrayBase<A>& a, const ArrayBase<B>& b, const ArrayBase<Y>& y, F f,
                 SourceLocation where = SourceLocation::current()) {
    return make_by_capture("weir::GraphBuilder::transform", where,
                           [&](StreamArg s) { weir::transform(s, a, b, y, f); });
  }
  /// A node that does nothing: others depend on it.
  Node empty(SourceLocation where = SourceLocation::current());
  /// Each replay records the event, or waits for its last record before the replay was launched.
  Node record(EventRef event, SourceLocation where = SourceLocation::current());
  Node wait(EventRef event, SourceLocation where = SourceLocation::current());

  // Control flow on element 0 of an array of std::int32_t, read when the node is reached. Nodes that `body` makes belong
  // to it, and depend on each other only. Bodies are called once, here.

  /// Runs the nodes of `then` if `condition[0]` is not 0; else those of `otherwise`, if there is such a body.
  template <class Then>
  Node if_(ConditionArg condition, Then&& then, SourceLocation where = SourceLocation::current()) {
    Call call(*this, "weir::GraphBuilder::if_", where);
    detail::ControlScope scope = control(*condition.array, detail::ControlKind::if_, 1, where);
    run_body(scope, 0, then);
    return call.node();
  }
  template <class Then, class Else>
    requires(!std::is_same_v<std::remove_cvref_t<Else>, SourceLocation>)
  Node if_(ConditionArg condition, Then&& then, Else&& otherwise, SourceLocation where = SourceLocation::current()) {
    Call call(*this, "weir::GraphBuilder::if_", where);
    detail::ControlScope scope = control(*condition.array, detail::ControlKind::if_else, 2, where);
    run_body(scope, 0, then);
    run_body(scope, 1, otherwise);
    return call.node();
  }
  /// Runs body number `selector[0]`; none if there is no such body.
  template <class... Body>
  Node switch_(ConditionArg selector, Body&&... bodies) {
    static_assert(sizeof...(Body) > 0, "weir::GraphBuilder::switch_ needs at least one body");
    Call call(*this, "weir::GraphBuilder::switch_", selector.where);
    detail::ControlScope scope =
        control(*selector.array, detail::ControlKind::switch_, sizeof...(Body), selector.where);
    std::uint32_t number = 0;
    static_cast<void>(std::initializer_list<int>{(run_body(scope, number++, bodies), 0)...});
    return call.node();
  }
  /// Runs the body while `condition[0]` is not 0, which is read before each turn: the body must come to change it.
  template <class Body>
  Node while_(ConditionArg condition, Body&& body, SourceLocation where = SourceLocation::current()) {
    Call call(*this, "weir::GraphBuilder::while_", where);
    detail::ControlScope scope = control(*condition.array, detail::ControlKind::while_, 1, where);
    run_body(scope, 0, body);
    return call.node();
  }

  /// `node` runs after `before`. Throws graph_cycle, naming the nodes of the cycle, if `before` runs after `node` already.
  void depends(Node node, Node before, SourceLocation where = SourceLocation::current());
  void depends(Node node, std::initializer_list<Node> before, SourceLocation where = SourceLocation::current());
  void depends(Node node, std::span<const Node> before, SourceLocation where = SourceLocation::current());

  /// Instantiates what was built so far; the builder may go on, for another graph with the same nodes and more.
  Graph build(SourceLocation where = SourceLocation::current()) const;

 private:
  struct State;
  /// Makes one node. If that throws, everything that it added is removed.
  class Call {
   public:
    Call(GraphBuilder& builder, const char* operation, SourceLocation where);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    Node node();

   private:
    State& state_;
    std::size_t before_;  ///< nodes when it began
    SourceLocation where_;
    bool whole_ = false;
  };

  template <class S>
  static Node refuse_stream() {
    static_assert(!std::is_same_v<S, S>,
                  "calls of a weir::GraphBuilder take no stream: nodes are ordered by builder.depends(node, before)");
    return {};
  }
  /// One node of what `part()` puts into the builder's stream.
  template <class F>
  Node make(const char* operation, SourceLocation where, F&& part) {
    Call call(*this, operation, where);
    detail::in_name_of(operation, part);
    return call.node();
  }
  /// The same of what `part(stream)` puts into another stream, as a child graph.
  template <class F>
  Node make_by_capture(const char* operation, SourceLocation where, F&& part) {
    const Stream own = stream_of_capture(operation, where);
    return detail::in_name_of(operation, [&] {
      return graph(weir::capture(StreamArg(own, where), [&] { part(StreamArg(own, where)); }), where);
    });
  }
  Stream stream_of_capture(const char* operation, SourceLocation where);

  StreamRef stream() const;
  State& begin(const char* operation, SourceLocation where);
  detail::ControlScope control(const ArrayBase<std::int32_t>& condition, detail::ControlKind kind, std::size_t bodies,
                               SourceLocation where);
  template <class Body>
  void run_body(detail::ControlScope& scope, std::uint32_t number, Body& body) {
    static_assert(std::is_invocable_v<Body&, GraphBuilder&> || std::is_invocable_v<Body&>,
                  "a body of a conditional node is called as body(builder) or as body()");
    scope.begin_body(number);
    if constexpr (std::is_invocable_v<Body&, GraphBuilder&>) {
      body(*this);
    } else {
      body();
    }
    scope.end_body();
  }

  State* state_ = nullptr;
};

}  // namespace weir
