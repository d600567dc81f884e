// Collects CUPTI's records of this process.
#pragma once

#include <cstddef>
#include <cstdint>

#include "foreign/cupti/library.hpp"
#include "foreign/cupti/records.hpp"
#include "foreign/store.hpp"

namespace weir::foreign {

/// There is one in a process, which is never destroyed: CUPTI calls it until the process is gone.
class Collector {
 public:
  struct Options {
    std::size_t limit = std::size_t{256} << 20;  ///< of memory, for what was told
    bool graph_nodes = false;                    ///< each node of a graph by itself
  };
  /// Throws std::runtime_error where CUPTI does not take part.
  explicit Collector(const Options& options);

  /// Whether CUPTI is asked for what it has not told yet: at the end also for what is not over.
  enum class Ask { nothing, what_is_over, all };
  Collected collect(Ask ask);
  /// Of the host's steady clock, when it began.
  std::int64_t steady() const { return steady_; }
  std::uint64_t commands() const { return store_.commands(); }
  const Cupti& cupti() const { return cupti_; }

 private:
  [[noreturn]] void refuse(const char* what, CUptiResult result);
  static void CUPTIAPI wanted(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records);
  static void CUPTIAPI filled(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t size,
                              std::size_t valid);
  void read(std::uint8_t* buffer, std::size_t valid);

  Cupti cupti_;
  Store store_;
  detail::Mutex records_mutex_;
  Records records_ WEIR_GUARDED_BY(records_mutex_);
  std::uint64_t started_ = 0;
  std::int64_t steady_ = 0;
};

}  // namespace weir::foreign
