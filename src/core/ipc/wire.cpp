// Handles: made, and looked at with suspicion.
#include "core/ipc/wire.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

namespace weir::detail::ipc {

namespace {

constexpr std::array<char, 4> magic = {'W', 'I', 'P', 'C'};

struct HandleBytes {
  std::array<char, 4> magic;
  std::uint16_t version;
  ObjectKind kind;
  std::uint8_t zero;
  Secret process;
  Secret object;
  std::int32_t pid;
  std::uint32_t zeros;
  std::uint64_t more_zeros;
  std::uint64_t sum;  ///< of what is before it: FNV-1a
};
static_assert(sizeof(HandleBytes) == 64 && std::is_trivially_copyable_v<HandleBytes>);

std::uint64_t sum_of(const HandleBytes& handle) {
  std::array<unsigned char, sizeof(HandleBytes)> bytes{};
  std::memcpy(bytes.data(), &handle, sizeof handle);
  std::uint64_t sum = 0xcbf29ce484222325u;
  for (std::size_t i = 0; i < offsetof(HandleBytes, sum); ++i) sum = (sum ^ bytes[i]) * 0x100000001b3u;
  return sum;
}

template <std::size_t N>
std::string bounded(const std::array<char, N>& text) {
  return {text.begin(), std::find(text.begin(), text.end(), '\0')};
}

}  // namespace

Secret new_secret() {
  Secret secret;
  std::size_t have = 0;
  while (have < secret.bytes.size()) {
    const ssize_t got = getrandom(secret.bytes.data() + have, secret.bytes.size() - have, 0);
    if (got > 0) {
      have += static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      std::random_device device;
      for (; have < secret.bytes.size(); ++have) secret.bytes[have] = static_cast<std::byte>(device());
    }
  }
  return secret;
}

std::array<std::byte, 64> handle_of(ObjectKind kind, const Name& name) {
  HandleBytes handle{magic, version, kind, 0, name.process, name.object, name.pid, 0, 0, 0};
  handle.sum = sum_of(handle);
  std::array<std::byte, 64> bytes{};
  std::memcpy(bytes.data(), &handle, sizeof handle);
  return bytes;
}

Name name_of(ObjectKind kind, const std::array<std::byte, 64>& bytes, const char* operation, SourceLocation where) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Errc::invalid_value, operation, kind == ObjectKind::array ? "array handle" : "event handle", why,
                where);
  };
  HandleBytes handle{};
  std::memcpy(&handle, bytes.data(), sizeof handle);
  if (bytes == std::array<std::byte, 64>{}) refuse("it is empty: no process exported anything by it");
  if (handle.magic != magic) refuse("these 64 bytes were not made by weir::export_array or weir::export_event");
  if (handle.version != version) {
    refuse("it has version " + std::to_string(handle.version) + ", and this build of Weir knows version " +
           std::to_string(version) + ": both processes need the same Weir");
  }
  if (handle.sum != sum_of(handle)) refuse("it is damaged: its checksum is wrong");
  if (handle.kind != kind) {
    refuse(kind == ObjectKind::array ? "it names an event: weir::import_event takes it"
                                     : "it names an array: weir::import_array takes it");
  }
  return {handle.process, handle.object, handle.pid};
}

std::string socket_name(const Secret& process) {
  constexpr const char* digits = "0123456789abcdef";
  std::string name = "weir-";
  for (const std::byte byte : process.bytes) {
    name += digits[std::to_integer<unsigned>(byte) >> 4];
    name += digits[std::to_integer<unsigned>(byte) & 15];
  }
  return name;
}

void Message::set_failure(const Error& error) noexcept { set_failure(error.errc(), error.what()); }

void Message::set_failure(Errc code, std::string_view why) noexcept {
  errc = static_cast<std::int32_t>(code);
  text.fill('\0');
  std::copy_n(why.begin(), std::min(why.size(), text.size() - 1), text.begin());
}

std::string Message::text_of() const { return bounded(text); }
std::string Message::backend_of() const { return bounded(backend); }

Errc Message::code() const {
  const bool known =
      errc >= static_cast<std::int32_t>(Errc::invalid_value) && errc <= static_cast<std::int32_t>(Errc::exporter_gone);
  return known ? static_cast<Errc>(errc) : Errc::exporter_gone;
}

}  // namespace weir::detail::ipc
