// expect: in one dimension a kernel's index is std::size_t, not weir::Index<1>
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::launch(stream, 8, [](weir::Index<1>) {});
}
