// The rates of PCIe links, as Linux tells them: folders as in /sys stand for devices and the ports above them.
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include <gtest/gtest.h>

#include "trace/best_rates.hpp"

namespace {

class LinkRates : public testing::Test {
 protected:
  LinkRates() : root_(std::filesystem::temp_directory_path() / ("weir_links" + std::to_string(getpid()))) {
    std::filesystem::create_directories(device());
  }
  ~LinkRates() override { std::filesystem::remove_all(root_); }

  std::filesystem::path port() const { return root_ / "pci0000:16" / "0000:16:01.0"; }
  std::filesystem::path device() const { return port() / "0000:17:00.0"; }
  static void tell(const std::filesystem::path& folder, const std::string& speed, const std::string& lanes) {
    std::ofstream(folder / "max_link_speed") << speed << "\n";
    std::ofstream(folder / "max_link_width") << lanes << "\n";
  }
  std::string source() const { return weir::trace::rates_of_pcie(device()).source; }

  std::filesystem::path root_;
};

TEST_F(LinkRates, are_those_of_the_devices_generation_and_lanes) {
  tell(device(), "32.0 GT/s PCIe", "16");
  const weir::trace::KnownRates rates = weir::trace::rates_of_pcie(device());
  EXPECT_EQ(rates.source, "PCIe 5.0 x16, raw");
  EXPECT_EQ(rates.copy_in, 63'015'384'615u);
  EXPECT_EQ(rates.copy_out, rates.copy_in);
  tell(device(), "8 GT/s", "8");
  EXPECT_EQ(source(), "PCIe 3.0 x8, raw");
  tell(device(), "2.5 GT/s PCIe", "1");
  EXPECT_EQ(weir::trace::rates_of_pcie(device()).copy_in, 250'000'000u);
}

TEST_F(LinkRates, are_those_of_the_narrowest_port_above) {
  tell(device(), "32.0 GT/s PCIe", "16");
  tell(port(), "16.0 GT/s PCIe", "16");
  EXPECT_EQ(source(), "PCIe 4.0 x16, raw");
  tell(port(), "Unknown", "255");
  EXPECT_EQ(source(), "PCIe 5.0 x16, raw");
  std::filesystem::create_directory_symlink(device(), root_ / "link");
  tell(port(), "16.0 GT/s PCIe", "8");
  EXPECT_EQ(weir::trace::rates_of_pcie(root_ / "link").source, "PCIe 4.0 x8, raw")
      << "as /sys/bus/pci/devices has them";
}

TEST_F(LinkRates, that_linux_does_not_know_are_none) {
  EXPECT_EQ(source(), "");
  EXPECT_EQ(weir::trace::rates_of_pcie(root_ / "nowhere").source, "");
  for (const auto& [speed, lanes] : {std::pair("Unknown", "16"),
                                     {"32.0 GT/s PCIe", "255"},
                                     {"32.0 GT/s PCIe", "0"},
                                     {"33.0 GT/s PCIe", "16"},
                                     {"", ""}}) {
    tell(device(), speed, lanes);
    EXPECT_EQ(source(), "") << speed << " " << lanes;
  }
}

}  // namespace
