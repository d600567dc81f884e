// expect: sizes are whole numbers
#include <weir/weir.hpp>

int main() {
  weir::launch(1e6, [](std::size_t) {});
}
