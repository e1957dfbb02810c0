// Reads little-endian fields out of bytes that nobody vouches for: every read is checked against
// what is left.
//
// Used by the parsers of this folder. Messages name what was being read; file.cpp adds the path.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"

namespace pacer::gguf {

static_assert(std::endian::native == std::endian::little, "GGUF fields are read as they lie");

// A string of the file, safe to print: cut to 80 bytes, anything but printable ASCII shown as '?'.
inline std::string shown(std::string_view text) {
  constexpr size_t kShownMax = 80;
  std::string out(text.substr(0, kShownMax));
  for (char& c : out) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  if (text.size() > kShownMax) out += "...";
  return out;
}

class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  // `what` ends the sentence "the file ends at byte N, inside ...".
  Result<std::span<const std::byte>> take(uint64_t size, std::string_view what) {
    if (size > remaining()) {
      return error(Code::kBadFile, "the file ends at byte {}, inside {}; is it cut short?",
                   bytes_.size(), what);
    }
    const auto taken = bytes_.subspan(position_, size);
    position_ += size;
    return taken;
  }

  template <class T>
  Result<T> read(std::string_view what) {
    static_assert(std::is_arithmetic_v<T>);
    ASSIGN_OR_RETURN(const auto raw, take(sizeof(T), what));
    T value;
    std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }

  // u64 length, then the bytes: a view into the file.
  Result<std::string_view> read_string(uint64_t length_max, std::string_view what) {
    ASSIGN_OR_RETURN(const uint64_t length, read<uint64_t>(what));
    if (length > length_max) {
      return error(Code::kBadFile, "{} is {} bytes long; the limit is {}", what, length,
                   length_max);
    }
    ASSIGN_OR_RETURN(const auto raw, take(length, what));
    return std::string_view(reinterpret_cast<const char*>(raw.data()), raw.size());
  }

 private:
  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
};

}  // namespace pacer::gguf
