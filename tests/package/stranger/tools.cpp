// A stranger's tool: it has a name that only weir::tools knows.
#include <weir/scenario.hpp>

int main() { return weir::name_of(weir::Errc::wrong_device) == "wrong_device" ? 0 : 1; }
