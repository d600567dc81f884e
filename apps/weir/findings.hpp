// What a checked program wrote when it ended, read again.
#pragma once

#include <optional>
#include <string>

#include <weir/check.hpp>

namespace tool {

/// The report in a file that WEIR_CHECK=json=FILE wrote; nothing where there is none in it.
std::optional<weir::CheckReport> read_findings(const std::string& path);

}  // namespace tool
