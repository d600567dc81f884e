// expect: elements of a weir::Array on the host: x.host_view()(row, column)
#include <weir/weir.hpp>

float read(const weir::Array<float>& x) { return x(0, 1); }

int main() {}
