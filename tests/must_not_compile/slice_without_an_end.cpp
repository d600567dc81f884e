// expect: a slice has an end: x.slice(lo, x.size())
#include <weir/weir.hpp>

int main() {
  const auto x = weir::zeros<float>(8);
  return static_cast<int>(x.slice(1).size());
}
