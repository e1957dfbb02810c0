// The header, then the two sections.
#include "gguf/parse.h"

#include <utility>

#include "gguf/cursor.h"
#include "gguf/parse_metadata.h"
#include "gguf/parse_tensors.h"

namespace pacer::gguf {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF", read as little endian
constexpr uint32_t kMagicBigEndian =
    0x47475546;  // "FUGG": the same number, written by a big-endian machine

struct Header {
  uint32_t version = 0;
  uint64_t n_tensors = 0;
  uint64_t n_keys = 0;
};

Error big_endian() {
  return error(Code::kUnsupported, "a big-endian GGUF file; only little endian is supported");
}

Result<Header> read_header(Cursor& cursor) {
  Header header;
  const auto magic = cursor.read<uint32_t>("the header");
  if (magic && *magic == kMagicBigEndian) return big_endian();
  if (!magic || *magic != kMagic) {
    return error(Code::kBadFile, "not a GGUF file: it does not begin with \"GGUF\"");
  }
  ASSIGN_OR_RETURN(header.version, cursor.read<uint32_t>("the header"));
  // Versions are small, so one whose low half is empty was written by a big-endian machine.
  if ((header.version & 0xffff) == 0 && header.version != 0) return big_endian();
  if (header.version != 2 && header.version != 3) {
    return error(Code::kUnsupported, "GGUF version {}; supported are 2 and 3", header.version);
  }
  ASSIGN_OR_RETURN(header.n_tensors, cursor.read<uint64_t>("the header"));
  ASSIGN_OR_RETURN(header.n_keys, cursor.read<uint64_t>("the header"));
  return header;
}

}  // namespace

Result<Parsed> parse(std::span<const std::byte> bytes) {
  Cursor cursor(bytes);
  ASSIGN_OR_RETURN(const Header header, read_header(cursor));
  ASSIGN_OR_RETURN(Metadata metadata, parse_metadata(cursor, header.n_keys));
  ASSIGN_OR_RETURN(std::vector<TensorInfo> tensors,
                   parse_tensors(cursor, header.n_tensors, metadata.alignment, bytes));
  return Parsed{header.version, std::move(metadata.values), std::move(tensors)};
}

}  // namespace pacer::gguf
