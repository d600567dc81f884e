// flags: -std=c++17
// expect: Weir needs C++20: compile with -std=c++20
// not expect: span
// not expect: concept
#include <weir/weir.hpp>

int main() { weir::Stream stream; }
