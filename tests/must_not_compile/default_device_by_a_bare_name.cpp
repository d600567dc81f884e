// expect: weir::device finds a weir::Device by its name
#include <weir/weir.hpp>

int main() { weir::set_default_device("cpu"); }
