// Launches from both files on every device, and says what is not as it must be.
#include <cstdio>
#include <string>
#include <vector>

#include "shared.hpp"

namespace {

int wrong = 0;

void expect(bool fact, const std::string& what) {
  if (fact) return;
  std::printf("not so: %s\n", what.c_str());
  ++wrong;
}

}  // namespace

int main() {
  for (const weir::Device& device : weir::devices()) {
    const weir::Stream s(device);
    auto x = weir::zeros<int>(s, 1000);
    launch_in_kernel_file(s, x);
    launch_lambda_in_kernel_file(s, x, 5);
    expect(x.to_host() == std::vector<int>(1000, 7), "the file with kernels launches on " + device.name());
    if (device.backend() == "cpu") {
      launch_in_host_file(s, x);
      expect(x.to_host() == std::vector<int>(1000, 9), "the file without launches on " + device.name());
      continue;
    }
    try {
      launch_in_host_file(s, x);
      expect(false, "a kernel without GPU code is refused on " + device.name());
    } catch (const weir::Error& error) {
      const std::string text = error.what();
      expect(error.errc() == weir::Errc::not_supported && text.find("weir_kernel_sources") != std::string::npos &&
                 text.find("host_side.cpp") != std::string::npos,
             "the error says what to do: " + text);
    }
    expect(x.to_host() == std::vector<int>(1000, 7), "a refused launch changes nothing on " + device.name());
  }
  std::printf("%s\n", wrong == 0 ? "as it must be" : "wrong");
  return wrong == 0 ? 0 : 1;
}
