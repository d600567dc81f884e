// expect: a kernel takes its arguments by value or as const references, not as references to change
#include <weir/weir.hpp>

struct Count {
  void operator()(std::size_t, int& count) const { ++count; }
};

int main() {
  weir::Stream stream;
  int count = 0;
  weir::launch(stream, 8, Count{}, count);
}
