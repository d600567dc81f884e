// expect: weir::device takes a name
#include <weir/weir.hpp>

int main() { static_cast<void>(weir::device(0)); }
