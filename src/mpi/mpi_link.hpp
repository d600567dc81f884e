// Data between processes by MPI's messages.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <mpi.h>

#include "ranks/link.hpp"

namespace weir::mpi {

/// Owns the communicator. Messages longer than MPI can count go in pieces.
class MpiLink final : public detail::RankLink {
 public:
  explicit MpiLink(MPI_Comm comm);
  ~MpiLink() override;

  std::string_view name() const override { return name_; }
  void send(detail::Transfer& transfer, int to, std::uint32_t tag, const std::byte* data, std::size_t bytes) override;
  void receive(detail::Transfer& transfer, int from, std::uint32_t tag, std::byte* data, std::size_t room) override;
  void test(detail::Transfer& transfer) override;
  bool cancel(detail::Transfer& transfer) override;
  void abandon() override { abandoned_ = true; }
  /// Whether the library says so of itself; WEIR_MPI_CUDA=0 or 1 says it for it.
  bool reaches_devices() const override { return reaches_devices_; }
  std::uint32_t tag_limit() const override { return tag_limit_; }

 private:
  struct Requests {
    std::vector<MPI_Request> pieces;
    bool receives;
    bool cancelled = false;
  };
  template <class Begin>
  void begin(detail::Transfer& transfer, std::size_t bytes, bool receives, Begin&& begin);
  void end(detail::Transfer& transfer, detail::Transfer::State state);

  const MPI_Comm comm_;
  std::string name_;
  std::uint32_t tag_limit_ = 32767;
  const bool reaches_devices_;
  bool abandoned_ = false;
};

/// The most bytes of one message of MPI's. Smaller in tests.
std::size_t largest_piece();
/// Before MPI_Finalize: waits for who frees a link's communicator, and none is freed any more.
void end_frees_of_links();

}  // namespace weir::mpi
