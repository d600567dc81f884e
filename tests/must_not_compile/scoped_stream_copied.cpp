// expect: deleted
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::ScopedStream a(stream);
  weir::ScopedStream b = a;
}
