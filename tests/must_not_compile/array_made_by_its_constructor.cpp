// expect: functions make arrays: weir::zeros<float>(stream, n)
#include <weir/weir.hpp>

int main() { const weir::Array<float> array(weir::default_device(), 10); }
