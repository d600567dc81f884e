// expect: an event has one owner: std::move(event), or weir::EventRef ref = event
#include <weir/weir.hpp>

int main() {
  weir::Event a;
  weir::Event b = a;
}
