// expect: declare what a host function or foreign call uses with weir::in(x), weir::out(x) or weir::inout(x)
#include <vector>

#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  std::vector<float> values(8);
  weir::host_call(
      stream, [] {}, values);
}
