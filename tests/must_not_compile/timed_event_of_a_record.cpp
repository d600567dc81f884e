// expect: a weir::Event takes no time: weir::TimedEvent event = stream.record_timed()
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::TimedEvent event = stream.record();
}
