// expect: weir::capture_switch needs at least one body
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto selector = weir::zeros<std::int32_t>(stream, 1);
  weir::capture_switch(stream, selector);
}
