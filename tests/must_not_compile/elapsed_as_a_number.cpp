// expect: 'weir::Milliseconds'
#include <weir/weir.hpp>

int main() {
  weir::TimedEvent begin;
  weir::TimedEvent end;
  const float ms = weir::elapsed(begin, end);
  return ms > 0;
}
