// expect: the host waits for a weir::Stream by stream.synchronize()
#include <weir/weir.hpp>

int main() {
  const weir::Stream stream;
  stream.sync();
}
