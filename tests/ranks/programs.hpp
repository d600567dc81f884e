// Programs that tests start.
#pragma once

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

namespace ranks_test {

/// What a shell's command prints, errors too.
inline std::string output_of(const std::string& command) {
  std::string out;
  const std::unique_ptr<FILE, int (*)(FILE*)> program(popen((command + " 2>&1").c_str(), "r"), &pclose);
  std::array<char, 4096> room;
  while (const std::size_t got = fread(room.data(), 1, room.size(), program.get())) out.append(room.data(), got);
  return out;
}
inline std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace ranks_test
