// Kernels that last as long as they are told, and declare what they are told.
#pragma once

#include <cstddef>
#include <span>

#include <weir/error.hpp>
#include <weir/graph_builder.hpp>
#include <weir/launch.hpp>

namespace weir::scenario {

using Byte = unsigned char;
using Arguments = std::span<const Argument<Byte>>;
/// A call takes its arguments when it is compiled: there are calls for as many.
inline constexpr std::size_t most_arguments = 16;

/// Calls `call(std::index_sequence<0, ..., count - 1>)`. Throws not_supported beyond most_arguments.
template <class Call, std::size_t... N>
void with_count(std::size_t count, const Call& call, std::index_sequence<N...>) {
  const bool found = ((count == N && (call(std::make_index_sequence<N>()), true)) || ...);
  if (!found) throw Error(Errc::not_supported, "weir::run_scenario", "a command", "it has more than 16 uses", {});
}
template <class Call>
void with_count(std::size_t count, const Call& call) {
  with_count(count, call, std::make_index_sequence<most_arguments + 1>());
}

void launch(StreamRef stream, const char* name, double ns, Arguments arguments, SourceLocation where);
Node launch(GraphBuilder& builder, const char* name, double ns, Arguments arguments, SourceLocation where);
void update(Graph& graph, Node node, double ns, Arguments arguments, SourceLocation where);

/// The host's own.
void spin(double ns);

}  // namespace weir::scenario
