// expect: weir::Index has 1 to 4 dimensions
#include <weir/weir.hpp>

int main() { return static_cast<int>(sizeof(weir::Index<5>)); }
