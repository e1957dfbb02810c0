#include "cli/pull_archive.h"

#include <archive.h>
#include <archive_entry.h>

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/human.h"
#include "gguf/cursor.h"  // shown

namespace pacer::cli {

namespace {

constexpr size_t kReadBytes = 256 << 10;
constexpr size_t kMembersMax = 10'000;
constexpr uint64_t kTextBytesMax = 1 << 20;  // of one kept member
constexpr size_t kTextsMax = 16;             // kept members: a package has one METADATA
// Weights hardly shrink; what unpacks to more than this many times its size is a trap.
constexpr uint64_t kGrowthMax = 32;
constexpr uint64_t kSmallBytes = 16 << 20;

struct FreeArchive {
  void operator()(archive* a) const { archive_read_free(a); }
};
using Archive = std::unique_ptr<archive, FreeArchive>;

Error unreadable(const std::string& path, archive* a) {
  const char* reason = archive_error_string(a);
  return error(Code::kBadFile, "'{}' cannot be unpacked: {}", path,
               reason != nullptr ? reason : "unknown reason");
}

Result<Archive> open(const std::string& path) {
  Archive a(archive_read_new());
  CHECK(a, "no memory for an archive");
  archive_read_support_format_zip(a.get());
  archive_read_support_format_tar(a.get());
  archive_read_support_filter_gzip(a.get());
  if (archive_read_open_filename(a.get(), path.c_str(), kReadBytes) != ARCHIVE_OK) {
    return unreadable(path, a.get());
  }
  return a;
}

uint64_t unpacked_bytes_max(const std::string& path) {
  std::error_code failed;
  const uint64_t size = std::filesystem::file_size(path, failed);
  return failed ? kSmallBytes : kSmallBytes + size * kGrowthMax;
}

// Calls `use` for each regular member until it says false; `use` may read the data.
Status for_each_member(const std::string& path,
                       const std::function<Result<bool>(archive*, const ArchiveMember&)>& use) {
  ASSIGN_OR_RETURN(const Archive a, open(path));
  archive_entry* entry = nullptr;
  for (size_t count = 0;; ++count) {
    const int status = archive_read_next_header(a.get(), &entry);
    if (status == ARCHIVE_EOF) return Ok{};
    if (status != ARCHIVE_OK && status != ARCHIVE_WARN) return unreadable(path, a.get());
    if (count >= kMembersMax) {
      return error(Code::kBadFile, "'{}' has more than {} members", path, kMembersMax);
    }
    const char* name = archive_entry_pathname(entry);
    if (name == nullptr || archive_entry_filetype(entry) != AE_IFREG) continue;
    const auto bytes = archive_entry_size_is_set(entry) ? archive_entry_size(entry) : 0;
    const ArchiveMember member{name, bytes > 0 ? static_cast<uint64_t>(bytes) : 0};
    ASSIGN_OR_RETURN(const bool go_on, use(a.get(), member));
    if (!go_on) return Ok{};
  }
}

// The data of the member that `a` stands at. Gaps of sparse members are refused: no package has
// them.
Status stream(archive* a, const std::string& path, const ArchiveMember& member, uint64_t bytes_max,
              const std::function<Status(std::span<const std::byte>)>& take) {
  uint64_t done = 0;
  while (true) {
    const void* block = nullptr;
    size_t size = 0;
    la_int64_t offset = 0;
    const int status = archive_read_data_block(a, &block, &size, &offset);
    if (status == ARCHIVE_EOF) break;
    if (status != ARCHIVE_OK) return unreadable(path, a);
    if (static_cast<uint64_t>(offset) != done) {
      return error(Code::kBadFile, "'{}' in '{}' is sparse", gguf::shown(member.name), path);
    }
    if (size > bytes_max - done) {
      return error(Code::kTooLarge, "'{}' in '{}' unpacks to more than {}",
                   gguf::shown(member.name), path, human_bytes(bytes_max));
    }
    done += size;
    TRY(take({static_cast<const std::byte*>(block), size}));
  }
  return Ok{};
}

}  // namespace

Result<ArchiveContents> read_archive(const std::string& path,
                                     const std::function<bool(const ArchiveMember&)>& keep) {
  ArchiveContents contents;
  const auto look = [&](archive* a, const ArchiveMember& member) -> Result<bool> {
    contents.members.push_back(member);
    if (!keep(member)) return true;
    if (contents.texts.size() >= kTextsMax) {
      return error(Code::kTooLarge, "'{}' has more than {} texts of a package", path, kTextsMax);
    }
    std::string& text = contents.texts[member.name];
    const auto append = [&](std::span<const std::byte> bytes) -> Status {
      text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return Ok{};
    };
    TRY(stream(a, path, member, kTextBytesMax, append));
    return true;
  };
  TRY(for_each_member(path, look));
  return contents;
}

Status read_member(const std::string& path, const std::string& name,
                   const std::function<Status(std::span<const std::byte>)>& take) {
  bool found = false;
  const auto look = [&](archive* a, const ArchiveMember& member) -> Result<bool> {
    if (member.name != name) return true;
    found = true;
    TRY(stream(a, path, member, unpacked_bytes_max(path), take));
    return false;
  };
  TRY(for_each_member(path, look));
  if (!found) {
    return error(Code::kBadFile, "'{}' has no member '{}'", path, gguf::shown(name));
  }
  return Ok{};
}

}  // namespace pacer::cli
