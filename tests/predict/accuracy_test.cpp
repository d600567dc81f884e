// Predictions beside what an H200 took: 994 small programs, measured on one, in tests/data.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <weir/recording.hpp>
#include <weir/sim.hpp>

#include "data/measured_programs.hpp"

using namespace weir_test;

namespace {

struct Errors {
  std::vector<double> percent;
  int inside = 0;  ///< of the interval
  std::vector<double> widths;

  void add(const weir::sim::Prediction& prediction, double measured) {
    percent.push_back(100 * std::abs(prediction.makespan_us / measured - 1));
    inside += prediction.low_us <= measured && measured <= prediction.high_us;
    widths.push_back(100 * (prediction.high_us - prediction.low_us) / prediction.makespan_us);
  }
  double quantile(double share) {
    std::sort(percent.begin(), percent.end());
    return percent[std::min(percent.size() - 1, static_cast<std::size_t>(share * static_cast<double>(percent.size())))];
  }
};

weir::sim::Prediction predicted(const MeasuredProgram& one) {
  return weir::sim::predict(weir::parse_recording(one.scenario), {"h200", {}, false, false});
}

struct PredictedProgram {
  MeasuredProgram program;
  weir::sim::Prediction prediction;
};
/// Predicted once for all tests, which takes seconds.
const std::vector<PredictedProgram>& pipelines() {
  static const std::vector<PredictedProgram> all = [] {
    std::vector<PredictedProgram> made;
    for (MeasuredProgram& one : measured_pipelines(WEIR_TEST_DATA)) {
      weir::sim::Prediction prediction = predicted(one);
      made.push_back({std::move(one), std::move(prediction)});
    }
    return made;
  }();
  return all;
}

TEST(Accuracy, C12_pipelines_of_copies_and_kernels_take_as_long_as_on_an_H200) {
  Errors errors;
  std::map<std::string, Errors> families;
  for (const auto& [one, prediction] : pipelines()) {
    errors.add(prediction, one.us);
    families[one.family].percent.push_back(errors.percent.back());
  }
  ASSERT_EQ(errors.percent.size(), 717U);
  EXPECT_LE(families.at("copy_kernel_copy").quantile(0.5), 1.5);
  EXPECT_LE(families.at("copy_kernel_copy").quantile(0.95), 6);
  EXPECT_LE(families.at("kernels").quantile(0.5), 1.5);
  EXPECT_LE(families.at("kernels").quantile(0.95), 9);
  EXPECT_LE(errors.quantile(0.5), 1.5);
  EXPECT_LE(errors.quantile(0.95), 7);
  EXPECT_LE(errors.quantile(1), 40);
  EXPECT_GE(errors.inside, 717 * 85 / 100);
  EXPECT_LE(errors.inside, 717 * 98 / 100);
  std::sort(errors.widths.begin(), errors.widths.end());
  EXPECT_LE(errors.widths[errors.widths.size() / 2], 12);
}

TEST(Accuracy, mixtures_of_all_kinds_of_commands_take_as_long_as_on_an_H200) {
  Errors errors, driver_kernels;
  for (const MeasuredProgram& one : measured_mixtures(WEIR_TEST_DATA)) {
    const bool apart = one.family == "fills" || one.family.rfind("copies_within", 0) == 0;
    (apart ? driver_kernels : errors).add(predicted(one), one.us);
  }
  ASSERT_EQ(errors.percent.size() + driver_kernels.percent.size(), 277U);
  EXPECT_LE(errors.quantile(0.5), 3);
  EXPECT_LE(errors.quantile(0.95), 15);
  EXPECT_LE(driver_kernels.quantile(0.5), 10);
  EXPECT_LE(driver_kernels.quantile(0.95), 30);
}

// Of the ways (order, streams) to do the same work, the one that is predicted to be the best is hardly worse than the best.
TEST(Accuracy, the_predicted_best_way_is_as_good_as_the_best) {
  struct Way {
    double predicted, measured;
  };
  std::map<std::string, std::vector<Way>> works;
  for (const auto& [one, prediction] : pipelines()) {
    works[one.work].push_back({prediction.makespan_us, one.us});
  }
  std::vector<double> lost;
  for (auto& [work, ways] : works) {
    if (ways.size() < 2) continue;
    const auto chosen = std::min_element(ways.begin(), ways.end(),
                                         [](const Way& a, const Way& b) { return a.predicted < b.predicted; });
    const auto best =
        std::min_element(ways.begin(), ways.end(), [](const Way& a, const Way& b) { return a.measured < b.measured; });
    lost.push_back(100 * (chosen->measured / best->measured - 1));
  }
  std::sort(lost.begin(), lost.end());
  ASSERT_GE(lost.size(), 50u);
  EXPECT_LE(lost[lost.size() * 95 / 100], 3);
}

/// z = x + y over 20,000,000 doubles: pieces in turn on the streams, each copies two parts in, adds, and copies one out.
std::string addition(int streams, int pieces) {
  constexpr std::size_t elements = 20'000'000;
  std::string list, program;
  for (int i = 0; i < streams; ++i)
    list += (i == 0 ? "" : ",") + std::string(R"({"name":"s)") + std::to_string(i) + R"(","kind":"non_blocking"})";
  for (int i = 0; i < pieces; ++i) {
    const auto piece = static_cast<std::size_t>(i), count = static_cast<std::size_t>(pieces);
    const std::size_t begin = elements * piece / count, end = elements * (piece + 1) / count;
    const std::string stream = R"({"stream":"s)" + std::to_string(i % streams) + "\",";
    const auto part = [&](const char* of) {
      return R"({"buffer":")" + std::string(of) + R"(","offset":)" + std::to_string(8 * begin) + R"(,"bytes":)" +
             std::to_string(8 * (end - begin)) + "}";
    };
    for (const char* const array : {"x", "y"})
      program += stream + R"("op":"copy","from":)" + part(("host_" + std::string(array)).c_str()) + R"(,"to":)" +
                 part(array) + "},";
    program += stream + R"("op":"launch","name":"Add","cost":{"bytes":)" + std::to_string(24 * (end - begin)) + "}},";
    program += stream + R"("op":"copy","from":)" + part("z") + R"(,"to":)" + part("host_z") + "},";
  }
  std::string buffers;
  for (const std::string array : {"x", "y", "z"}) {
    buffers += (buffers.empty() ? "" : ",") + std::string(R"({"name":")") + array +
               R"(","kind":"device","bytes":160000000},{"name":"host_)" + array +
               R"(","kind":"pinned","bytes":160000000})";
  }
  return R"({"format":"weir.scenario","version":1,"streams":[)" + list + R"(],"buffers":[)" + buffers +
         R"(],"program":[)" + program + R"({"op":"synchronize","all":true}]})";
}

TEST(Accuracy, M1_the_articles_addition_takes_as_long_as_on_an_H200_and_its_best_cut_is_found) {
  const auto ms = [](int streams, int pieces) {
    return weir::sim::predict(weir::parse_recording(addition(streams, pieces)), {.gains = false}).makespan_us / 1000;
  };
  EXPECT_NEAR(ms(1, 1), 8.782, 0.02 * 8.782);
  EXPECT_NEAR(ms(5, 5), 6.582, 0.03 * 6.582);
  const double best = ms(2, 16);
  EXPECT_NEAR(best, 6.268, 0.04 * 6.268);
  for (const int streams : {1, 2, 3, 4, 5, 6, 8}) {
    for (const int pieces : {1, 2, 4, 5, 8, 10, 16, 32})
      EXPECT_GE(ms(streams, pieces), 0.99 * best) << streams << " streams, " << pieces << " pieces";
  }
}

}  // namespace
