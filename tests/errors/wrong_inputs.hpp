// The table of wrong inputs: what is called, and the error that must answer.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <weir/weir.hpp>

#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {

/// What an entry may play with: a device, a second one where there is one, a stream, and arrays of ten elements.
struct Room {
  explicit Room(weir::Device where);

  /// What a reference points to when the stream or event has ended.
  weir::StreamRef ended_stream() const;
  weir::EventRef ended_event() const;

  weir::Device device;
  weir::Device other;  ///< the same device where the backend has one only
  weir::Stream stream;
  weir::Array<int> a, b;   ///< on the device
  weir::Array<int> plane;  ///< 3 x 4, on the device
  weir::Array<int> pinned, pageable;
  weir::Pool pool;
  std::vector<int> vector;
};

enum class Needs { nothing, two_devices, no_cuda, cpu, pageable_out_of_reach, graphs };

struct WrongInput {
  std::string name;
  weir::Errc code;
  std::vector<std::string> words;  ///< what the message must contain
  std::function<void(Room&)> call;
  Needs needs = Needs::nothing;
};

/// Collects entries; the file of the test becomes one of the words, for a message names the user's line.
class Table {
 public:
  Table(std::string_view file) : file_(file.substr(file.rfind('/') + 1)) {}
  void add(std::string name, weir::Errc code, std::vector<std::string> words, std::function<void(Room&)> call,
           Needs needs = Needs::nothing) {
    words.push_back(file_);
    add_without_line(std::move(name), code, std::move(words), std::move(call), needs);
  }
  /// For operators, which cannot see the user's line.
  void add_without_line(std::string name, weir::Errc code, std::vector<std::string> words,
                        std::function<void(Room&)> call, Needs needs = Needs::nothing) {
    entries_.push_back({std::move(name), code, std::move(words), std::move(call), needs});
  }
  std::vector<WrongInput> take() { return std::move(entries_); }

 private:
  std::string file_;
  std::vector<WrongInput> entries_;
};

std::vector<WrongInput> wrong_devices();
std::vector<WrongInput> wrong_streams();
std::vector<WrongInput> wrong_events();
std::vector<WrongInput> wrong_arrays();
std::vector<WrongInput> wrong_launches();
std::vector<WrongInput> wrong_algorithms();
std::vector<WrongInput> wrong_copies();
std::vector<WrongInput> wrong_memory();
std::vector<WrongInput> wrong_graphs();

/// Streams that are none any more, by how they came to be so.
struct BrokenStream {
  std::string how;
  std::function<weir::StreamRef(Room&)> stream;
};
const std::vector<BrokenStream>& broken_streams();

struct AddOne {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x) const { x[i] += 1; }
};
struct AddOneToPlane {
  WEIR_KERNEL void operator()(weir::Index<2> at, weir::View<int, 2> x) const { x[at] += 1; }
};

struct DoNothing {
  WEIR_KERNEL void operator()(std::size_t) const {}
};
struct DoNothingInBlocks {
  WEIR_KERNEL void operator()(weir::Block&) const {}
};
struct LookAt {
  WEIR_KERNEL void operator()(std::size_t, weir::View<const int>) const {}
};
struct Same {
  WEIR_KERNEL int operator()(int x) const { return x; }
};

/// A value that has been moved from.
template <class T>
T& moved_from(T& value) {
  T taken = std::move(value);
  return value;
}

}  // namespace weir_test
