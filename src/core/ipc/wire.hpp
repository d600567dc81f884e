// What processes say to each other: handles, which users carry, and messages, which sockets do. All of fixed size.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include <weir/error.hpp>
#include <weir/ipc.hpp>

namespace weir::detail::ipc {

inline constexpr std::uint16_t version = 1;

/// Random bytes that nobody guesses.
struct Secret {
  std::array<std::byte, 16> bytes{};
  friend auto operator<=>(const Secret&, const Secret&) = default;
};
Secret new_secret();

enum class ObjectKind : std::uint8_t { array = 1, event = 2 };

/// A handle, taken apart.
struct Name {
  Secret process;  ///< which process: its socket is named after it
  Secret object;   ///< which object of it
  std::int32_t pid = 0;
};

std::array<std::byte, 64> handle_of(ObjectKind kind, const Name& name);
/// Throws invalid_value for bytes that are no handle of this kind and version.
Name name_of(ObjectKind kind, const std::array<std::byte, 64>& handle, const char* operation, SourceLocation where);
/// The name of a process's socket, behind the zero of abstract names.
std::string socket_name(const Secret& process);

enum class MessageKind : std::uint16_t {
  open_array = 1,  ///< asks for the memory of `object`; answered by array_opened, with a descriptor, or refused
  array_opened,
  close_array,  ///< what the request opened is not used any more; no answer
  take_event,   ///< asks for the last record of `object`; answered by event_taken or refused
  event_taken,
  event_over,  ///< what the request took is over, well or with `errc`
  ask_event,   ///< asks whether it is; answered by event_is or refused
  event_is,
  refused,  ///< by `errc` and `text`
};

struct Message {
  std::uint32_t magic = 0x57495043;
  MessageKind kind{};
  std::uint16_t yes = 0;      ///< of event_is
  std::uint64_t request = 0;  ///< the asker's number for what it asked
  Secret object;
  std::int32_t errc = 0;  ///< 0: none
  std::uint32_t rank = 0;
  std::uint64_t sizes[4]{};
  std::uint64_t element_bytes = 0;
  std::uint32_t element_type = 0;
  std::uint32_t element_bits = 0;
  std::uint64_t begin = 0;   ///< of the elements in the allocation
  std::uint64_t offset = 0;  ///< as SharedMemory, from here on
  std::uint64_t bytes = 0;
  std::uint64_t pool = 0;
  std::array<std::byte, 64> pointer{};
  std::array<char, 16> backend{};
  std::array<char, 256> text{};

  void set_failure(const Error& error) noexcept;
  void set_failure(Errc code, std::string_view why) noexcept;
  /// As a message has them; whatever the sender wrote.
  std::string text_of() const;
  std::string backend_of() const;
  /// exporter_gone for what is no code.
  Errc code() const;
};
static_assert(std::is_trivially_copyable_v<Message>);

}  // namespace weir::detail::ipc
