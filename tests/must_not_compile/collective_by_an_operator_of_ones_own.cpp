// expect: collectives reduce by weir::Plus, Multiplies, Minimum, Maximum or Average
#include <weir/collectives.hpp>
#include <weir/weir.hpp>

struct Difference {
  float operator()(float a, float b) const { return a - b; }
};

void reduce(weir::StreamRef stream, const weir::Communicator& ranks, weir::Array<float>& x) {
  weir::all_reduce(stream, ranks, weir::inout(x), Difference{});
}

int main() {}
