// expect: sizes are whole numbers
#include <weir/weir.hpp>

int main() { static_cast<void>(weir::zeros<float>(weir::default_device(), 1e6)); }
