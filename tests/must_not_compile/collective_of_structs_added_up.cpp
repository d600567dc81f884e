// expect: collectives reduce integers, float and double
#include <weir/collectives.hpp>
#include <weir/weir.hpp>

struct Pair {
  float first, second;
};

void reduce(weir::StreamRef stream, const weir::Communicator& ranks, weir::Array<Pair>& x) {
  weir::all_reduce(stream, ranks, weir::inout(x));
}

int main() {}
