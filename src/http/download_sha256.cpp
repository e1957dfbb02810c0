// OpenSSL's EVP interface, which uses the processor's SHA instructions where there are some.
#include "http/download_sha256.h"

#include <openssl/evp.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"

namespace pacer::http {

namespace {

constexpr size_t kReadBytes = 1 << 20;

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_MD_CTX, FreeContext>;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

struct Sha256::State {
  Context context{EVP_MD_CTX_new()};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  CHECK(state_->context, "no memory for a digest");
  reset();
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::reset() {
  CHECK(EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr) == 1, "no SHA-256");
}

void Sha256::update(std::span<const std::byte> bytes) {
  CHECK(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1,
        "SHA-256 of {} bytes", bytes.size());
}

std::string Sha256::hex() const {
  const Context copy{EVP_MD_CTX_new()};  // finishing ends a context; the stream may go on
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  CHECK(copy && EVP_MD_CTX_copy_ex(copy.get(), state_->context.get()) == 1 &&
            EVP_DigestFinal_ex(copy.get(), digest, &size) == 1,
        "SHA-256 does not finish");
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

Result<std::string> sha256_of_file(const std::string& path) {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rbe"));
  if (!file) return error(Code::kIo, "cannot open '{}': {}", path, std::strerror(errno));
  Sha256 digest;
  std::vector<std::byte> buffer(kReadBytes);
  while (const size_t size = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    digest.update(std::span(buffer).first(size));
  }
  if (std::ferror(file.get())) return error(Code::kIo, "cannot read '{}'", path);
  return digest.hex();
}

std::string sha256_of(std::string_view text) {
  Sha256 digest;
  digest.update(std::as_bytes(std::span(text)));
  return digest.hex();
}

std::optional<std::string> parse_sha256(std::string_view text) {
  if (text.size() != 64 ||
      text.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
    return std::nullopt;
  }
  std::string sum(text);
  for (char& c : sum) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  return sum;
}

}  // namespace pacer::http
