// `weir ranks`: starts a program several times on this machine, each a rank of one job.
#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "rank_processes.hpp"
#include "session.hpp"

namespace tool {

namespace {

struct Options {
  std::int64_t ranks = 2;
  std::int64_t grace = 10;
  bool raw = false;
};

constexpr const char* footer =
    "Each rank finds RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment,\n"
    "as torchrun sets them, and what weir::communicator(device) needs: WEIR_JOB_PORT, and WEIR_JOB_SECRET, which "
    "nobody\n"
    "but the ranks of this job should know. Lines of output begin with the number of their rank, [2], unless --raw is\n"
    "given. Signals that are sent to the tool reach all ranks. When a rank ends with an error, the others have "
    "--grace\n"
    "seconds to end by themselves. The exit code is that of the first rank that failed.\n"
    "For tests and demos on one machine: clusters have mpirun, srun and torchrun.";

/// A port of this machine that nobody has, and nobody gets by chance while this lives. Who listens there says SO_REUSEADDR, if
/// `shared`.
class FreePort {
 public:
  explicit FreePort(bool shared) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    if (shared && socket_ >= 0) setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (socket_ < 0 || bind(socket_, any, size) != 0 || getsockname(socket_, any, &size) != 0) {
      if (socket_ >= 0) close(socket_);
      throw std::runtime_error("no port can be had on the loopback address");
    }
    port_ = ntohs(address.sin_port);
  }
  ~FreePort() { close(socket_); }
  FreePort(const FreePort&) = delete;
  FreePort& operator=(const FreePort&) = delete;
  std::string text() const { return std::to_string(port_); }

 private:
  int socket_;
  int port_ = 0;
};

std::string make_secret() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw std::runtime_error("the system gives no random bytes for the job's secret");
  }
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

Switches environment_of(const Session& session, int ranks, const FreePort& job) {
  const FreePort master(false);
  const std::string size = std::to_string(ranks);
  Switches switches = {{"WORLD_SIZE", size},          {"LOCAL_WORLD_SIZE", size},
                       {"MASTER_ADDR", "127.0.0.1"},  {"MASTER_PORT", master.text()},
                       {"WEIR_JOB_PORT", job.text()}, {"WEIR_JOB_SECRET", make_secret()}};
  if (!session.device_name.empty()) switches.emplace_back("WEIR_DEVICE", session.device_name);
  return switches;
}

Exit run(const Session& session, const Options& options) {
  if (session.program.empty()) throw UsageError("-- PROGRAM is required (see weir ranks --help)");
  if (session.json) throw UsageError("--json has no place here: the programs print for themselves");
  check_range("-n", options.ranks, 1, 1024);
  check_range("--grace", options.grace, 0, 1'000'000);
  const RankOptions how = {.ranks = static_cast<int>(options.ranks),
                           .grace_seconds = static_cast<double>(options.grace),
                           .prefixed = !options.raw};
  const FreePort job(true);  // rank 0 listens for each communicator, and not between them
  return static_cast<Exit>(run_ranks(session.program, environment_of(session, how.ranks, job), how));
}

}  // namespace

void add_ranks(const Command& app, Session& session) {
  const Command command = app.add("ranks", "Starts a program several times on this machine, as the ranks of one job");
  const auto options = std::make_shared<Options>();
  add_common_options(command, session);
  command.number("-n,--ranks", options->ranks, "how many");
  command.number("--grace", options->grace, "seconds that the others have to end once a rank has failed");
  command.flag("--raw", options->raw, "output as it is: no line says whose it is");
  command.footer(footer);
  command.when_given([&session, options] {
    session.takes_program = true;
    session.run = [&session, options] { return run(session, *options); };
  });
}

}  // namespace tool
