// expect: a graph is not copied by =: graph.clone(), std::move(graph), or a reference
#include <weir/weir.hpp>

int main() {
  weir::Graph a;
  weir::Graph b = a;
}
