// expect: weir::histogram counts numbers
#include <weir/weir.hpp>

struct Pair {
  int first, second;
  bool operator<(const Pair& other) const { return first < other.first; }
};

int main() {
  weir::Stream stream;
  auto x = weir::zeros<Pair>(stream, 8);
  auto counts = weir::zeros<int>(stream, 4);
  weir::histogram(stream, x, counts, Pair{0, 0}, Pair{1, 1});
}
