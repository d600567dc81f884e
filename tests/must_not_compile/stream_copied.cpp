// expect: a stream has one owner: std::move(stream), or weir::StreamRef ref = stream
#include <weir/weir.hpp>

int main() {
  weir::Stream a;
  weir::Stream b = a;
}
