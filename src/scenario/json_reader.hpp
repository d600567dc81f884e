// The members of a scenario file one by one, those of its lists element by element. json_reader.cpp alone knows the library that
// reads JSON.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

#include "scenario/file_input.hpp"
#include "scenario/value.hpp"

namespace weir::scenario {

class Members {
 public:
  virtual ~Members() = default;
  /// Whether the elements of this member are wanted one by one.
  virtual bool is_list(std::string_view member) const = 0;
  virtual void list_begins(std::string_view member) = 0;
  virtual void element(std::string_view list, std::size_t index, Value value) = 0;
  virtual void list_ends(std::string_view member) = 0;
  virtual void member(std::string_view name, Value value) = 0;
  /// What values that are being read may take.
  virtual std::size_t room() const = 0;
};

/// Throws Fault for what is no JSON object, is nested too deep, holds something too long, or takes too much.
void read_json(FileInput& input, Members& members);

}  // namespace weir::scenario
