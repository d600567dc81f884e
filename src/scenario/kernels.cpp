// Kernels that last as long as they are told: compiled for GPUs, too, where there is the CUDA backend.
#include "scenario/kernels.hpp"

#include <chrono>
#include <utility>

#include <weir/error.hpp>
#include <weir/graph_update.hpp>

namespace weir::scenario {

template <std::size_t>
using Bytes = View<Byte, max_rank>;

WEIR_KERNEL inline void last(double ns) {
#if defined(__CUDA_ARCH__)
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (static_cast<double>(now - begin) < ns);
#else
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() < ns) {
  }
#endif
}

template <class Indices>
struct Spin;
template <std::size_t... I>
struct Spin<std::index_sequence<I...>> {
  WEIR_KERNEL void operator()(std::size_t, double ns, Bytes<I>...) const {
    if (ns > 0) last(ns);
  }
};

void spin(double ns) {
  if (ns > 0) last(ns);
}

void launch(StreamRef stream, const char* name, double ns, Arguments arguments, SourceLocation where) {
  with_count(
      arguments.size(), [&]<std::size_t... I>(std::index_sequence<I...> indices) {
        weir::launch(StreamArg(stream, where), ExtentArg(Extent{1, 0, name}, where), Spin<decltype(indices)>{}, ns,
                     arguments[I]...);
      });
}

Node launch(GraphBuilder& builder, const char* name, double ns, Arguments arguments, SourceLocation where) {
  Node node;
  with_count(
      arguments.size(), [&]<std::size_t... I>(std::index_sequence<I...> indices) {
        node = builder.launch(ExtentArg(Extent{1, 0, name}, where), Spin<decltype(indices)>{}, ns, arguments[I]...);
      });
  return node;
}

void update(Graph& graph, Node node, double ns, Arguments arguments, SourceLocation where) {
  with_count(
      arguments.size(), [&]<std::size_t... I>(std::index_sequence<I...> indices) {
        graph.update(NodeArg(node, where), Spin<decltype(indices)>{}, ns, arguments[I]...);
      });
}

}  // namespace weir::scenario
