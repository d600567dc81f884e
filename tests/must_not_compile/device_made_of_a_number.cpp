// expect: weir::device finds a weir::Device by its name
#include <weir/weir.hpp>

int main() { const weir::Device device(0); }
