// The raw counterpart of a replay: a plain loop of calls.
#include <chrono>
#include <vector>

#include "raw.hpp"
#include "support/proof.hpp"

namespace bench::raw {

namespace {
[[gnu::noinline]] void nothing(const void*) { tally(); }
}  // namespace

double calls(std::size_t nodes, std::size_t count) {
  struct Node {
    void (*run)(const void*);
    const void* argument;
  };
  std::vector<Node> all(nodes, Node{&nothing, nullptr});
  asm volatile("" : : "r"(all.data()) : "memory");
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < count; ++i) {
    for (const Node& node : all) node.run(node.argument);
  }
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() /
         static_cast<double>(count);
}

}  // namespace bench::raw
