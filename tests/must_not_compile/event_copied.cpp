// expect: deleted
#include <weir/weir.hpp>

int main() {
  weir::Event a;
  weir::Event b = a;
}
