// What ranks tell each other beside their data: messages of bounded size, which come from outside and are not trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::detail {

struct ControlMessage {
  enum class Type : std::uint8_t {
    hello,  ///< numbers: version, rank, size, job, port of data, checks, reach, machine, process; texts: secret, host, mover
    welcome,  ///< numbers: checks, each rank's port, the job's number, each rank's reach, rank 0's machine and process; texts: of each its host, address, mover
    alive,    ///< heartbeat; numbers: communicators; texts: the last call of each; before the welcome: let in
    report,   ///< numbers: communicator, reason, call, rank that is to blame or size, fingerprint; texts: what
    question,  ///< numbers: inquest, communicator, call, fingerprint
    answer,    ///< numbers: inquest, calls, state, fingerprint; texts: that call, the last call
    verdict,   ///< numbers: communicator, error code, ranks that failed; texts: what, the table
    left,      ///< numbers: communicator, rank, calls, each other rank with sends and receives; texts: its last call
    split,     ///< numbers: communicator, split, color, key
    splits,    ///< numbers: communicator, split, and each rank's color, key and context
    dead,      ///< numbers: rank; texts: why; instead of a welcome: no job comes of it, and whether a process is gone
    bye,       ///< numbers: rank
    last = bye
  };
  Type type = Type::alive;
  std::vector<std::uint64_t> numbers = {};
  std::vector<std::string> texts = {};

  /// At least so many of each, or it is not to be read.
  bool has(std::size_t some_numbers, std::size_t some_texts) const {
    return numbers.size() >= some_numbers && texts.size() >= some_texts;
  }
};

inline constexpr std::size_t most_ranks = 4096;
inline constexpr std::size_t longest_text = 4096;
inline constexpr std::size_t longest_frame = 2 << 20;

/// Four bytes of length before it. Texts are cut at longest_text.
std::string frame_of(const ControlMessage& message);
/// Of a frame without its length; nothing for what frame_of() does not make.
std::optional<ControlMessage> parse_message(std::string_view bytes);

/// Takes frames out of what arrives. Never keeps more than one frame may have, and what was read beyond it.
class FrameReader {
 public:
  explicit FrameReader(std::size_t longest = longest_frame) : longest_(longest) {}
  void add(std::string_view bytes) { bytes_.append(bytes); }
  /// The next message; nothing where more must arrive first, or it is broken.
  std::optional<ControlMessage> next();
  /// What came is no message: nothing can be read any more.
  bool broken() const { return broken_; }
  void allow(std::size_t longest) { longest_ = longest; }

 private:
  std::string bytes_;
  std::size_t longest_;
  bool broken_ = false;
};

}  // namespace weir::detail
