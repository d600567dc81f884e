// expect: weir::elapsed needs two weir::TimedEvents: a plain weir::Event takes no time
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  const weir::TimedEvent start = stream.record_timed();
  return weir::elapsed(start, stream.record()).count() > 0;
}
