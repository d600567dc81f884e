// expect: a kernel takes its index, or its weir::Block&, first
#include <weir/weir.hpp>

int main() {
  (void)weir::kernel_info(weir::default_device(), [] {});
}
