// SHA-256 of a stream of bytes: what says that a download is what its index promised.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pacer::http {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void reset();
  void update(std::span<const std::byte> bytes);
  std::string hex() const;  // of all bytes so far, lower case; more may follow

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Result<std::string> sha256_of_file(const std::string& path);
std::string sha256_of(std::string_view text);

// 64 hexadecimal digits in either case, as hex() writes them; nothing when it is something else.
std::optional<std::string> parse_sha256(std::string_view text);

}  // namespace pacer::http
