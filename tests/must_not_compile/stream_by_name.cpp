// expect: weir::Stream takes a weir::Device: weir::Stream(weir::device(
#include <weir/weir.hpp>

int main() { weir::Stream stream("cpu"); }
