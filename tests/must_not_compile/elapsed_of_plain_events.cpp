// expect: weir::elapsed needs two weir::TimedEvents: a plain weir::Event takes no time
#include <weir/weir.hpp>

int main() {
  weir::Event start;
  weir::Event end;
  return weir::elapsed(start, end).count() > 0;
}
