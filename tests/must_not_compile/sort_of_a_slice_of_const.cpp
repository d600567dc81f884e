// expect: weir::sort needs an array that can be written
#include <weir/weir.hpp>

void sort(weir::StreamRef stream, const weir::Slice<const float>& x) { weir::sort(stream, x); }
int main() {}
