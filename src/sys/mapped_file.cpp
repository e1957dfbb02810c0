// MappedFile over open/fstat/mmap.
//
// The mapping is private and read-only. It shows the file as it is on disk: whoever truncates the
// file while it is mapped makes a later access fault (SIGBUS), which no check here can prevent.
// Replace model files by rename.
#include "sys/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace pacer::sys {
namespace {

struct FileDescriptor {
  int fd = -1;
  ~FileDescriptor() {
    if (fd >= 0) ::close(fd);
  }
};

void unmap(std::span<const std::byte> bytes) {
  if (!bytes.empty()) ::munmap(const_cast<std::byte*>(bytes.data()), bytes.size());
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer; it has no effect on regular files.
  FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) {
    const int reason = errno;
    const Code code = reason == ENOENT || reason == ENOTDIR ? Code::kNotFound : Code::kIo;
    return error(code, "cannot open '{}': {}", path, std::strerror(reason));
  }

  struct stat info {};
  if (::fstat(file.fd, &info) != 0) {
    return error(Code::kIo, "cannot stat '{}': {}", path, std::strerror(errno));
  }
  if (S_ISDIR(info.st_mode)) return error(Code::kBadFile, "'{}' is a directory", path);
  if (!S_ISREG(info.st_mode)) return error(Code::kBadFile, "'{}' is not a regular file", path);
  if (info.st_size == 0) return error(Code::kBadFile, "'{}' is empty", path);

  const size_t size = static_cast<size_t>(info.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (address == MAP_FAILED) {
    return error(Code::kIo, "cannot map '{}' ({} bytes): {}", path, size, std::strerror(errno));
  }
  MappedFile mapped;  // the mapping outlives the descriptor
  mapped.bytes_ = {static_cast<const std::byte*>(address), size};
  return mapped;
}

MappedFile::~MappedFile() {
  unmap(bytes_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    unmap(bytes_);
    bytes_ = std::exchange(other.bytes_, {});
  }
  return *this;
}

void MappedFile::release() const {
  // Drops our page-table entries; the page cache may then be reclaimed. A later access reads from
  // disk again, so this is only advice and its failure changes nothing.
  if (!bytes_.empty()) {
    ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
  }
}

}  // namespace pacer::sys
