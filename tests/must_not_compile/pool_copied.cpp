// expect: deleted
#include <weir/weir.hpp>

int main() {
  weir::Pool a(weir::default_device());
  weir::Pool b = a;
}
