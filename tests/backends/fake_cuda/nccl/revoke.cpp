// The call that NCCL has from 2.28.9 on: the tests are linked once with it, and once without.
#include "backends/fake_cuda/nccl/fake_nccl.hpp"

extern "C" int ncclCommRevoke(FakeComm* comm, int) { return fake_nccl::revoke(comm); }
