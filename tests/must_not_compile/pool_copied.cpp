// expect: a pool has one owner: std::move(pool), or weir::PoolRef ref = pool
#include <weir/weir.hpp>

int main() {
  weir::Pool a(weir::default_device());
  weir::Pool b = a;
}
