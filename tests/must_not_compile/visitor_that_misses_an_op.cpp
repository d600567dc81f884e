// expect: this visitor does not handle every weir::Op: add a case for the kind that is missing
#include <weir/weir.hpp>

int kind(const weir::Op& op) {
  return weir::visit_op(
      op, [](const weir::Launch&) { return 0; }, [](const weir::Copy&) { return 1; },
      [](const weir::Fill&) { return 2; }, [](const weir::Alloc&) { return 3; }, [](const weir::Free&) { return 4; },
      [](const weir::Record&) { return 5; }, [](const weir::Wait&) { return 6; },
      [](const weir::HostCall&) { return 7; }, [](const weir::External&) { return 8; });
}

int main() {}
