// expect: weir::synchronize() waits for all devices; for one thing there are weir::synchronize_stream(stream)
#include <weir/weir.hpp>

int main() {
  const weir::Stream stream;
  weir::synchronize(stream);
}
