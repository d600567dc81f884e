// expect: the options of a weir::Stream have names
#include <weir/weir.hpp>

int main() { const weir::Stream stream(weir::default_device(), -1); }
