// This process as a rank of a job.
#ifdef WEIR_TEST_MPI
#include <weir/mpi.hpp>
#endif

#include "ranks/world.hpp"

#include <cstdlib>
#include <optional>
#include <string_view>

#include <gtest/gtest.h>

namespace ranks_test {

namespace {

std::optional<weir::Communicator> shared_one;

bool has(const char* variable) { return std::getenv(variable) != nullptr; }
/// By mpirun, or by srun: Slurm's plugins are PMIx and PMI 2.
bool is_started_by_mpi() { return has("OMPI_COMM_WORLD_SIZE") || has("PMI_SIZE") || has("PMIX_RANK"); }

/// All ranks take leave before their processes end.
class TakesLeave : public ::testing::Environment {
 public:
  void TearDown() override { shared_one.reset(); }
};
const auto* const takes_leave = ::testing::AddGlobalTestEnvironment(new TakesLeave);

}  // namespace

weir::Device device() {
  const char* backend = std::getenv("WEIR_TEST_RANK_DEVICES");
  if (backend == nullptr) return weir::device("cpu");
  const char* rank = std::getenv("RANK");
  const bool mixed = std::string_view(backend) == "mixed";  // the first rank is a CPU device
  if (mixed && (rank == nullptr || std::atoi(rank) == 0)) return weir::device("cpu");
  const std::vector<weir::Device> all = weir::devices(mixed ? "cuda" : backend);
  return all.at(rank == nullptr ? 0 : static_cast<std::size_t>(std::atoi(rank)) % all.size());
}

bool is_rank() { return has("WEIR_JOB_SECRET") || (has("MASTER_PORT") && has("RANK")) || is_started_by_mpi(); }

weir::Communicator make(const weir::CommunicatorOptions& options) {
#ifdef WEIR_TEST_MPI
  if (is_started_by_mpi()) return weir::mpi::communicator(device(), MPI_COMM_WORLD, options);
#endif
  return weir::communicator(device(), options);
}

weir::Communicator& shared() {
  if (!shared_one) shared_one = make({.name = "shared"});
  return *shared_one;
}

}  // namespace ranks_test
