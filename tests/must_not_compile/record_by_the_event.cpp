// expect: streams record events: stream.record(event)
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  const weir::Event event;
  event.record(stream);
}
