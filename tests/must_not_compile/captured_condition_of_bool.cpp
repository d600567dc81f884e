// expect: a condition of a graph is a weir::Array<std::int32_t>, whose element 0 is read when a replay gets there
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto graph = weir::capture(stream, [&] { weir::capture_if(stream, true, [] {}); });
}
