// Control flow inside captured graphs: if, if/else, switch and while on a device value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include <weir/array.hpp>
#include <weir/graph.hpp>
#include <weir/stream.hpp>

namespace weir {

/// A condition or selector, an array of std::int32_t, with the user's line. Made implicitly.
class ConditionArg {
 public:
  ConditionArg(const ArrayBase<std::int32_t>& a, SourceLocation w = SourceLocation::current()) : array(&a), where(w) {}
  template <class X>
    requires(!std::is_base_of_v<ArrayBase<std::int32_t>, X>)
  ConditionArg(const X&) {
    static_assert(
        !std::is_same_v<X, X>,
        "a condition of a graph is a weir::Array<std::int32_t>, whose element 0 is read when a replay gets there");
  }

  const ArrayBase<std::int32_t>* array = nullptr;  ///< of the caller's
  SourceLocation where;
};

namespace detail {

enum class ControlKind : std::uint8_t { if_, if_else, switch_, while_ };

/// A conditional node in the making, on a capturing stream. What the stream records inside a body belongs to the body.
class ControlScope {
 public:
  /// Throws not_capturing on a stream that does not capture.
  ControlScope(StreamRef stream, const ArrayBase<std::int32_t>& condition, ControlKind kind, std::size_t bodies,
               const char* operation, SourceLocation where);
  ~ControlScope();
  ControlScope(ControlScope&&) = delete;

  void begin_body(std::uint32_t number);
  /// Throws capture_unjoined if a stream that joined inside the body was not joined back.
  void end_body();
  std::size_t node() const { return node_; }

 private:
  StreamRef stream_;
  const char* operation_;
  std::uint64_t capture_ = 0;
  std::size_t node_ = 0;
  std::size_t bodies_ = 0;     ///< to come
  std::size_t recorders_ = 0;  ///< of the capture when it began
  std::int32_t outer_parent_ = -1;
  std::uint32_t outer_branch_ = 0;
  SourceLocation where_;
};

template <class Body>
void capture_body(ControlScope& scope, std::uint32_t number, Body& body) {
  static_assert(std::is_invocable_v<Body&>, "a body of a conditional node is called as body()");
  scope.begin_body(number);
  body();
  scope.end_body();
}

}  // namespace detail

/// On a capturing stream: a conditional node that runs what `then()` records if `condition[0]` is not 0 when a replay
/// reaches it. Streams that join inside a body must be joined back inside it. Bodies are called once, here.
template <class Then>
void capture_if(StreamArg stream, ConditionArg condition, Then&& then) {
  detail::ControlScope scope(stream.stream, *condition.array, detail::ControlKind::if_, 1, "weir::capture_if",
                             stream.where);
  detail::capture_body(scope, 0, then);
}
template <class Then, class Else>
void capture_if(StreamArg stream, ConditionArg condition, Then&& then, Else&& otherwise) {
  detail::ControlScope scope(stream.stream, *condition.array, detail::ControlKind::if_else, 2, "weir::capture_if",
                             stream.where);
  detail::capture_body(scope, 0, then);
  detail::capture_body(scope, 1, otherwise);
}
/// Runs body number `selector[0]`; none if there is no such body.
template <class... Body>
void capture_switch(StreamArg stream, ConditionArg selector, Body&&... bodies) {
  static_assert(sizeof...(Body) > 0, "weir::capture_switch needs at least one body");
  detail::ControlScope scope(stream.stream, *selector.array, detail::ControlKind::switch_, sizeof...(Body),
                             "weir::capture_switch", stream.where);
  std::uint32_t number = 0;
  // A list, for compilers limit how deep fold expressions may be.
  static_cast<void>(std::initializer_list<int>{(detail::capture_body(scope, number++, bodies), 0)...});
}
/// Runs the body while `condition[0]` is not 0, which is read before each turn: the body must come to change it.
template <class Body>
void capture_while(StreamArg stream, ConditionArg condition, Body&& body) {
  detail::ControlScope scope(stream.stream, *condition.array, detail::ControlKind::while_, 1, "weir::capture_while",
                             stream.where);
  detail::capture_body(scope, 0, body);
}

}  // namespace weir
