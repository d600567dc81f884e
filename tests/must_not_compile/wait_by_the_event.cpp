// expect: streams wait for events: stream.wait(event)
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  const weir::TimedEvent event;
  event.wait(stream);
}
