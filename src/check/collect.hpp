// Findings as a report: equal ones are one, known ones are left out, and there are not too many.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>

#include <weir/check.hpp>

#include "check/suppressions.hpp"

namespace weir::check {

class Collector {
 public:
  Collector(const CheckOptions& options, SourceLocation where)
      : most_(options.max_findings), suppressions_(options.suppressions, options.suppressions_name, where) {}

  /// Whether it is neither suppressed nor known.
  bool add(Finding finding) {
    if (suppressions_.match(finding)) {
      ++report_.suppressed;
      return false;
    }
    const auto [found, added] = places_.try_emplace(finding.key, report_.findings.size());
    if (!added) {
      if (found->second < report_.findings.size()) report_.findings[found->second].count += finding.count;
      return false;
    }
    ++(finding.severity == Severity::error     ? report_.errors
       : finding.severity == Severity::warning ? report_.warnings
                                               : report_.hints);
    if (most_ != 0 && report_.findings.size() >= most_) {
      found->second = static_cast<std::size_t>(-1);
      ++report_.dropped;
      return false;
    }
    report_.findings.push_back(std::move(finding));
    return true;
  }
  bool suppressed(const Finding& finding) { return suppressions_.match(finding); }
  void clear() {
    places_.clear();
    report_ = {};
  }
  const CheckReport& so_far() const { return report_; }
  CheckReport report() const {
    CheckReport made = report_;
    made.unmatched_suppressions = suppressions_.unmatched();
    return made;
  }

 private:
  std::size_t most_;
  Suppressions suppressions_;
  std::unordered_map<std::string, std::size_t> places_;
  CheckReport report_;
};

}  // namespace weir::check
