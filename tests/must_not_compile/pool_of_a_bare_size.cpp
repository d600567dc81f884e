// expect: the options of a weir::Pool have names: weir::Pool(device, {.max_size = bytes})
#include <weir/weir.hpp>

int main() { weir::Pool pool(weir::default_device(), 1 << 20); }
