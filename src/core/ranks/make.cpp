// Communicators whose ranks are processes: made, and by the environment of a launcher.
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "core/ranks/environment.hpp"
#include "core/ranks/ranked_state.hpp"
#include "core/runtime.hpp"
#include "ranks/meeting_file.hpp"
#include "ranks/socket_link.hpp"

namespace weir::detail {

std::shared_ptr<CommunicatorState> make_ranked_state(Device device, const CommunicatorOptions& options,
                                                     RankEngine::Place place, std::shared_ptr<SharedLink> link,
                                                     std::shared_ptr<Control> control, SourceLocation where) {
  auto state = std::make_shared<CommunicatorState>(device, place.members.size(), options, where);
  for (const int member : place.members) {
    const RankReach reach = control->peers()[static_cast<std::size_t>(member)].reach;
    if (reach == RankReach::none) place.staging = RankStaging::all;
    if (reach == RankReach::link && place.staging == RankStaging::none) place.staging = RankStaging::folds;
  }
  place.direct =
      control->peers()[static_cast<std::size_t>(place.members[static_cast<std::size_t>(place.rank)])].reach ==
      RankReach::link;
  state->ranked = std::make_shared<RankedState>(state, std::move(place), std::move(link), std::move(control));
  state->ranked->start();
  watch(state);
  return state;
}

Communicator make_ranked(Device device, const CommunicatorOptions& options, int rank, int size,
                         std::shared_ptr<SharedLink> link, std::shared_ptr<Control> control, SourceLocation where) {
  // What has begun goes to its end when the process does: the others need it.
  static const bool registered = std::atexit(settle_ranks) == 0;
  static_cast<void>(registered);
  RankEngine::Place place{.members = {}, .rank = rank, .context = 0, .compare = control->checks()};
  for (int r = 0; r < size; ++r) place.members.push_back(r);
  auto state = make_ranked_state(device, options, std::move(place), std::move(link), control, where);
  control->start();
  state->ranked->open_mover();
  return Communicator(std::make_unique<Member>(std::move(state), rank));
}

namespace {

std::string text_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

/// The variable's number; -1 where it is none within the bounds.
int number_of(const char* name, int lowest, int highest) {
  const std::string text = text_of(name);
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= lowest && number <= highest ? number
                                                                                                           : -1;
}

/// As torchrun sets it: a store listens at MASTER_PORT, and the job's own port is another one.
bool has_store_in_environment() {
  return !text_of("RANK").empty() && !text_of("MASTER_ADDR").empty() && !text_of("MASTER_PORT").empty() &&
         number_of("WORLD_SIZE", 2, static_cast<int>(most_ranks)) > 0;
}

/// Jobs of one user on one machine have different stores.
std::string meeting_path(const std::string& address, std::uint64_t job) {
  std::string path = text_of("WEIR_JOB_FILE");
  if (path.empty()) {
    std::string folder = text_of("XDG_RUNTIME_DIR");
    if (folder.empty()) folder = "/tmp";
    path = folder + "/weir-job-" + std::to_string(geteuid()) + "-" + address + "-" + text_of("MASTER_PORT");
  }
  return path + "-" + std::to_string(job);
}

}  // namespace

bool has_job_in_environment() { return !text_of("WEIR_JOB_SECRET").empty() || has_store_in_environment(); }

void settle_ranks() {
  if (forked()) return;  // a thread of the parent's may have had the lock
  RankProgress::instance().settle(std::chrono::seconds(2));
}
void leave_ranks() { RankedState::leave_all(); }
bool ranks_failed() { return RankEngine::any_stopped(); }
std::string mover_of(Device device) { return device.state()->backend->rank_mover(device.index()); }
RankReach reach_of(Device device, const RankLink* link) {
  const auto transport = device.state()->backend->open_rank_transport(device.index());
  if (!transport || transport->traits().reaches_memory) return RankReach::host;
  return link != nullptr && link->reaches_devices() ? RankReach::link : RankReach::none;
}
bool wants_checks() {
  const std::string value = text_of("WEIR_CHECK");
  return !value.empty() && value != "0";
}

Communicator make_from_environment(Device device, const CommunicatorOptions& options, const char* operation,
                                   SourceLocation where) {
  const auto refuse = [&](Errc code, const std::string& why) {
    throw Error(code, operation, device.name(), why, where);
  };
  const auto need = [&](const char* name, int lowest, int highest) {
    const int number = number_of(name, lowest, highest);
    if (number < 0) {
      refuse(Errc::invalid_value, std::string(name) + " is \"" + text_of(name) + "\": it is a number of " +
                                      std::to_string(lowest) + " to " + std::to_string(highest) +
                                      " (weir ranks and torchrun set it)");
    }
    return number;
  };
  const int size = need("WORLD_SIZE", 1, static_cast<int>(most_ranks));
  const int rank = need("RANK", 0, size - 1);
  const bool has_secret = !text_of("WEIR_JOB_SECRET").empty();
  std::string address = text_of("MASTER_ADDR");
  const bool on_one_host = number_of("LOCAL_WORLD_SIZE", size, size) == size;
  if (address.empty() || address == "localhost" || on_one_host) address = "127.0.0.1";
  static std::atomic<std::uint64_t> jobs{0};
  Control::Settings settings;
  settings.rank = rank;
  settings.size = size;
  settings.secret = text_of("WEIR_JOB_SECRET");
  settings.job = jobs.fetch_add(1);
  settings.address = address;
  settings.checks = wants_checks();
  settings.mover = mover_of(device);
  settings.reach = reach_of(device, nullptr);
  if (has_secret) {
    const bool beside_store = text_of("WEIR_JOB_PORT").empty() && !text_of("MASTER_PORT").empty();
    settings.port = beside_store ? need("MASTER_PORT", 1, 65534) + 1 : need("WEIR_JOB_PORT", 1, 65535);
  }
  settings.deadline = RankClock::now() + std::min<std::chrono::nanoseconds>(options.timeout, std::chrono::hours(24));
  const RankClock::time_point deadline = settings.deadline;
  std::optional<MeetingFile> meeting;
  std::string secret = settings.secret;
  try {
    if (rank == 0) {
      auto [listening, port] = listen_at(address, settings.port);
      settings.listening = std::move(listening);
      settings.port = port;
    }
    if (!has_secret) {
      const std::string path = meeting_path(address, settings.job);
      if (rank == 0) {
        secret = settings.secret = random_secret();
        meeting.emplace(path, MeetingPlace{settings.port, secret});
      } else {
        settings.find = [path, &secret](Control::Settings& found) {
          const auto place = MeetingFile::read(path);
          if (!place) return false;
          found.port = place->port;
          found.secret = secret = place->secret;
          return true;
        };
      }
    }
    auto [data, data_port] = listen_at(address == "127.0.0.1" ? address : "0.0.0.0", 0);
    settings.data_port = data_port;
    auto control = std::make_shared<Control>(std::move(settings));
    auto link = std::make_unique<SocketLink>(rank, control->peers(), std::move(data), secret, deadline);
    return make_ranked(device, options, rank, size, std::make_shared<SharedLink>(std::move(link)), std::move(control),
                       where);
  } catch (const SocketError& error) {
    if (error.kind == SocketError::Kind::gone) refuse(Errc::rank_failed, error.what);
    const bool late = error.kind == SocketError::Kind::late || RankClock::now() >= deadline;
    refuse(late ? Errc::collective_timeout : Errc::not_supported, error.what);
  }
  return Communicator();
}

}  // namespace weir::detail
