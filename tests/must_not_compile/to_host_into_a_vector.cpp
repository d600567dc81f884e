// expect: x.to_host() returns the elements: values = x.to_host()
#include <weir/weir.hpp>

#include <vector>

int main() {
  const auto x = weir::zeros<float>(8);
  std::vector<float> values(8);
  x.to_host(values);
}
