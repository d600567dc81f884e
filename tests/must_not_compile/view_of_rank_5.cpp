// expect: weir::View has 1 to 4 dimensions
#include <weir/weir.hpp>

int main() { weir::View<float, 5> view; }
