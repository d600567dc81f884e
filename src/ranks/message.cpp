// Messages to bytes, and back.
#include "ranks/message.hpp"

#include <algorithm>

namespace weir::detail {

namespace {

void put(std::string& bytes, std::uint64_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  std::uint64_t number(std::size_t size) {
    if (bytes_.size() < size) good_ = false;
    if (!good_) return 0;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes_[i])) << (8 * i);
    }
    bytes_.remove_prefix(size);
    return value;
  }
  std::string text() {
    const auto size = static_cast<std::size_t>(number(2));
    if (size > longest_text || size > bytes_.size()) good_ = false;
    if (!good_) return {};
    std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return text;
  }
  std::size_t left() const { return bytes_.size(); }
  bool good() const { return good_; }

 private:
  std::string_view bytes_;
  bool good_ = true;
};

}  // namespace

std::string frame_of(const ControlMessage& message) {
  std::string bytes;
  put(bytes, 0, 4);
  put(bytes, static_cast<std::uint64_t>(message.type), 1);
  put(bytes, message.numbers.size(), 2);
  put(bytes, message.texts.size(), 2);
  for (const std::uint64_t number : message.numbers) put(bytes, number, 8);
  for (const std::string& text : message.texts) {
    const std::string_view cut = std::string_view(text).substr(0, longest_text);
    put(bytes, cut.size(), 2);
    bytes += cut;
  }
  std::string length;
  put(length, bytes.size() - 4, 4);
  return bytes.replace(0, 4, length);
}

std::optional<ControlMessage> parse_message(std::string_view bytes) {
  Reader reader(bytes);
  const auto type = static_cast<std::uint8_t>(reader.number(1));
  const auto numbers = static_cast<std::size_t>(reader.number(2));
  const auto texts = static_cast<std::size_t>(reader.number(2));
  if (!reader.good() || type > static_cast<std::uint8_t>(ControlMessage::Type::last)) return std::nullopt;
  if (numbers * 8 + texts * 2 > reader.left()) return std::nullopt;
  ControlMessage message;
  message.type = static_cast<ControlMessage::Type>(type);
  for (std::size_t i = 0; i < numbers; ++i) message.numbers.push_back(reader.number(8));
  for (std::size_t i = 0; i < texts; ++i) message.texts.push_back(reader.text());
  if (!reader.good() || reader.left() != 0) return std::nullopt;
  return message;
}

std::optional<ControlMessage> FrameReader::next() {
  if (broken_ || bytes_.size() < 4) return std::nullopt;
  std::size_t length = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    length |= static_cast<std::size_t>(static_cast<unsigned char>(bytes_[i])) << (8 * i);
  }
  if (length > longest_) {
    broken_ = true;
    return std::nullopt;
  }
  if (bytes_.size() < 4 + length) return std::nullopt;
  std::optional<ControlMessage> message = parse_message(std::string_view(bytes_).substr(4, length));
  broken_ = !message;
  bytes_.erase(0, 4 + length);
  return message;
}

}  // namespace weir::detail
