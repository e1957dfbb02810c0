#include "http/download_part.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace pacer::http {

namespace {

constexpr size_t kReadBytes = 1 << 20;
constexpr auto kLockPoll = std::chrono::milliseconds(200);

Error io_error(const char* what, const std::string& path) {
  const int reason = errno;
  if (reason == ENOSPC || reason == EDQUOT) {
    return error(Code::kExhausted,
                 "no space left for '{}' ({}); what has come stays, so the same command goes on "
                 "from there once there is room",
                 path, std::strerror(reason));
  }
  return error(Code::kIo, "cannot {} '{}': {}", what, path, std::strerror(reason));
}

// The two lines of NAME.part.from; empty when it is not there.
std::pair<std::string, std::string> read_from(const std::string& path) {
  std::ifstream in(path);
  std::string source, validator;
  std::getline(in, source);
  std::getline(in, validator);
  return {source, validator};
}

void close_fd(int fd) {
  if (fd >= 0) ::close(fd);
}

}  // namespace

Result<PartFile> PartFile::open(const std::string& path, const std::string& source) {
  PartFile part;
  part.path_ = path;
  part.source_ = source;
  // No O_TRUNC: what is there may be worth hours. A symlink there is not followed.
  part.fd_ = ::open(part.part_path().c_str(),
                    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  if (part.fd_ < 0) return io_error("write", part.part_path());
  struct stat info {};
  if (::fstat(part.fd_, &info) != 0) return io_error("stat", part.part_path());
  if (!S_ISREG(info.st_mode)) {
    return error(Code::kIo, "'{}' is not a regular file", part.part_path());
  }
  const auto [of, validator] = read_from(part.from_path());
  if (info.st_size > 0 && of == source) {
    part.validator_ = validator;
    TRY(part.take_up());
  } else {
    TRY(part.restart(""));
  }
  return part;
}

Status PartFile::take_up() {
  std::vector<std::byte> buffer(kReadBytes);
  while (true) {
    const ssize_t got = ::read(fd_, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error("read", part_path());
    if (got == 0) return Ok{};
    digest_.update(std::span(buffer).first(static_cast<size_t>(got)));
    size_ += static_cast<uint64_t>(got);
  }
}

Status PartFile::restart(const std::string& validator) {
  if (::ftruncate(fd_, 0) != 0 || ::lseek(fd_, 0, SEEK_SET) != 0) {
    return io_error("empty", part_path());
  }
  size_ = 0;
  digest_.reset();
  validator_ = validator;
  // After the part is empty: at no moment does an old part stand under a new description.
  std::ofstream out(from_path(), std::ios::trunc);
  out << source_ << '\n' << validator_ << '\n';
  out.close();
  if (!out) return io_error("write", from_path());
  return Ok{};
}

Status PartFile::append(std::span<const std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = ::write(fd_, bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return io_error("write", part_path());
    digest_.update(bytes.subspan(done, static_cast<size_t>(wrote)));
    size_ += static_cast<uint64_t>(wrote);
    done += static_cast<size_t>(wrote);
  }
  return Ok{};
}

Status PartFile::finish() {
  // Else a power cut could leave the name on a file whose bytes never reached the disk.
  if (::fsync(fd_) != 0) return io_error("write", part_path());
  if (::rename(part_path().c_str(), path_.c_str()) != 0) return io_error("rename", part_path());
  ::unlink(from_path().c_str());
  close();
  return Ok{};
}

void PartFile::discard() {
  ::unlink(part_path().c_str());
  ::unlink(from_path().c_str());
  close();
}

void PartFile::close() {
  close_fd(std::exchange(fd_, -1));
}

PartFile::~PartFile() {
  close();
}

PartFile::PartFile(PartFile&& other) noexcept
    : path_(std::move(other.path_)),
      source_(std::move(other.source_)),
      validator_(std::move(other.validator_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      digest_(std::move(other.digest_)) {}

PartFile& PartFile::operator=(PartFile&& other) noexcept {
  if (this == &other) return *this;
  close();
  path_ = std::move(other.path_);
  source_ = std::move(other.source_);
  validator_ = std::move(other.validator_);
  fd_ = std::exchange(other.fd_, -1);
  size_ = other.size_;
  digest_ = std::move(other.digest_);
  return *this;
}

Result<FileLock> FileLock::acquire(const std::string& path, const std::function<void()>& on_wait,
                                   const std::function<bool()>& go_on) {
  FileLock lock;
  lock.fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (lock.fd_ < 0) return io_error("open", path);
  bool waiting = false;
  while (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return io_error("lock", path);
    if (!std::exchange(waiting, true)) on_wait();
    if (!go_on()) return error(Code::kUnavailable, "stopped while waiting for '{}'", path);
    std::this_thread::sleep_for(kLockPoll);
  }
  return lock;
}

FileLock::~FileLock() {
  close_fd(fd_);
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  if (this == &other) return *this;
  close_fd(fd_);
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}

}  // namespace pacer::http
