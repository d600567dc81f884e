// expect: an element of a weir::View of several dimensions: view(row, column)
#include <weir/weir.hpp>

float read(weir::View<float, 2> m, std::size_t i, std::size_t j) { return m[i][j]; }

int main() {}
