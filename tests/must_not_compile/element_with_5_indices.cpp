// expect: an element has 1 to 4 indices
#include <weir/weir.hpp>

float read(const weir::Array<float>& x) { return x.host_view()(0, 0, 0, 0, 0); }

int main() {}
