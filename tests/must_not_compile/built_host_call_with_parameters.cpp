// expect: weir::host_call needs a function that can be called as function()
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::GraphBuilder builder;
  builder.host_call([](int) {});
}
