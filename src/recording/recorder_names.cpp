// Names in a recording that is being made.
#include "recording/recorder_names.hpp"

#include <cctype>

namespace weir::recorded {

Name Names::unique(Taken& taken, std::string_view wanted, const char* otherwise) {
  constexpr std::size_t longest = 52;  // a scenario's are up to 64, and a number may follow
  std::string base;
  for (const char c : wanted.substr(0, longest)) {
    const bool allowed =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("_.+:-").find(c) != std::string_view::npos;
    base += allowed ? c : '_';
  }
  if (base.empty()) base = otherwise;
  std::string name = base;
  for (std::size_t i = 2; !taken.insert(name).second; ++i) name = base + "." + std::to_string(i);
  return text(name);
}

void Names::give_back(Taken& taken, Name name) { taken.erase(std::string(sink_.text(name))); }

}  // namespace weir::recorded
