// expect: weir::host_update needs an array that can be written
#include <weir/weir.hpp>

void count(const weir::Slice<const int>& x) { ++weir::host_update(x)[0]; }

int main() {}
