// expect: a weir::Stream waits for streams and events
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::Device device = stream.device();
  stream.wait(device);
}
