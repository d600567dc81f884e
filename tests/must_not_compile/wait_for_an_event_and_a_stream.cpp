// expect: stream.wait({...}) takes either events or streams: a call for each
#include <weir/weir.hpp>

int main() {
  weir::Stream stream, other;
  const weir::Event event;
  stream.wait({event, other});
}
