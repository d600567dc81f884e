// expect: need a predicate that can be called as chosen(x[i])
#include <weir/weir.hpp>

#include <string>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<int>(stream, 8);
  auto y = weir::zeros<int>(stream, 8);
  auto count = weir::zeros<int>(stream, 1);
  weir::select_if(stream, x, y, count, [](const std::string&) { return true; });
}
