// expect: conversion from 'vector<
#include <weir/weir.hpp>

int main() {
  weir::Array<float> x = weir::zeros<float>(weir::host, 8);
  std::vector<double> values = x.to_host();
  return values.empty();
}
