// expect: weir::external needs a function that can be called as function(native_stream)
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::external(stream, [] {});
}
