// Predictions as the tool shows them: text, JSON, and timelines.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <weir/recording.hpp>
#include <weir/sim.hpp>

namespace tool {

/// What is predicted, of which file, for which device.
struct Predicted {
  const weir::Recording& recording;
  const weir::sim::Prediction& prediction;
  std::string file;
  std::string device;
  bool host_measured = false;
  /// Of each command, for those without an id; empty: their places.
  std::vector<std::size_t> numbers = {};
};

/// "#12", or the id that the file gives it.
std::string id_of(const Predicted& predicted, std::size_t command);
/// Of a program's commands: how many questions it asks may depend on how fast it runs, so they are not counted.
std::vector<std::size_t> numbers_without_questions(const weir::Recording& recording);

/// `plain`: the prediction without --set, or null.
std::string to_text(const Predicted& predicted, const weir::sim::Prediction* plain);
/// One object, on one line without its end, `plain` as above.
std::string to_json(const Predicted& predicted, const weir::sim::Prediction* plain);
/// "6.582 ms"
std::string duration(double us);

/// By the name's end: .json has trace events, .svg a picture of lanes. Throws std::runtime_error where it cannot be written.
void write_timeline(const Predicted& predicted, const std::string& path);
/// To be called first. Throws UsageError unless the name's end is one of these, std::runtime_error where it cannot be written.
void check_timeline(const std::string& path);

}  // namespace tool
