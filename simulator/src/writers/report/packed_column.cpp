#include "packed_column.hpp"

#include <cstring>
#include <vector>

namespace ppsim::simulator {
namespace {

constexpr std::size_t kMinMatch = 8;
constexpr std::size_t kHashBits = 16;

void add_varint(std::string& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  bytes += static_cast<char>(value);
}

std::size_t hash_of(const char* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof(word));
  return static_cast<std::size_t>((word * 0x9E3779B97F4A7C15U) >> (64 - kHashBits));
}

std::size_t match_length(std::string_view bytes, std::size_t earlier, std::size_t at) {
  std::size_t length = 0;
  while (at + length < bytes.size() && bytes[earlier + length] == bytes[at + length]) ++length;
  return length;
}

}  // namespace

std::string without_repeats(std::string_view bytes) {
  static_assert(kMinMatch == sizeof(std::uint64_t));
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::vector<std::size_t> seen(std::size_t{1} << kHashBits, kNone);
  std::string result;
  add_varint(result, bytes.size());
  std::size_t literals = 0;  // from here to `at`
  const auto flush = [&](std::size_t at, std::size_t length) {
    add_varint(result, at - literals);
    result.append(bytes.substr(literals, at - literals));
    add_varint(result, length);
    literals = at + length;
  };
  for (std::size_t at = 0; at + kMinMatch <= bytes.size();) {
    std::size_t& slot = seen[hash_of(bytes.data() + at)];
    const std::size_t earlier = slot;
    slot = at;
    const std::size_t length = earlier == kNone ? 0 : match_length(bytes, earlier, at);
    if (length < kMinMatch) {
      ++at;
      continue;
    }
    flush(at, length);
    add_varint(result, at - earlier);
    at += length;
  }
  flush(bytes.size(), 0);
  return result;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    const std::string_view part = bytes.substr(at, 3);
    for (std::size_t i = 0; i < 3; ++i)
      group = (group << 8U) | (i < part.size() ? static_cast<unsigned char>(part[i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      text += i <= part.size() ? kLetters[(group >> (18 - 6 * i)) & 0x3FU] : '=';
  }
  return text;
}

void PackedColumn::add(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  add_varint(bytes_, (bits << 1U) ^ (value < 0 ? ~std::uint64_t{0} : 0));
}

std::string PackedColumn::text() const { return base64(without_repeats(bytes_)); }

}  // namespace ppsim::simulator
