// What the ranks of a scene tell each other, beside what Weir does.
#pragma once

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <weir/weir.hpp>

namespace ranks_test {

/// A file that all ranks know: who waits for it goes on when another rank has opened it. The job ends a gate that stays shut.
class SharedGate {
 public:
  explicit SharedGate(const std::string& name) : path_(std::string(std::getenv("WEIR_TEST_GATES")) + "/" + name) {}
  void open() const { std::ofstream(path_).put('x'); }
  const std::string& path() const { return path_; }
  void wait() const {
    while (!std::filesystem::exists(path_)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

 private:
  std::string path_;
};

inline const char* name_of(weir::Errc code) {
  switch (code) {
    case weir::Errc::rank_failed: return "rank_failed";
    case weir::Errc::collective_timeout: return "collective_timeout";
    case weir::Errc::collective_mismatch: return "collective_mismatch";
    default: return "something else";
  }
}

}  // namespace ranks_test
