// A file on its way: NAME.part beside its place, renamed when it is whole and right, so that nobody
// ever sees half a file under its real name.
//
// A part that another process left (killed, no network, disk full) is taken up again. What it is a
// part of is written in NAME.part.from: a part of something else is thrown away. The digest runs
// along, so that a finished file is not read again.
//
// Also the lock that keeps two processes from writing into one folder at once.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"
#include "http/download_sha256.h"

namespace pacer::http {

class PartFile {
 public:
  // Opens or creates the part of `path`. `source` names what is fetched: its checksum where that is
  // known, else its address. Whoever calls holds the lock of the folder.
  static Result<PartFile> open(const std::string& path, const std::string& source);
  ~PartFile();
  PartFile(PartFile&& other) noexcept;
  PartFile& operator=(PartFile&& other) noexcept;

  const std::string& path() const { return path_; }
  std::string part_path() const { return path_ + ".part"; }
  uint64_t size() const { return size_; }
  // What the server said that identifies this version of the file (ETag or Last-Modified); may be
  // empty.
  const std::string& validator() const { return validator_; }
  std::string sha256() const { return digest_.hex(); }

  Status restart(const std::string& validator);  // empty again, of this version
  Status append(std::span<const std::byte> bytes);
  Status finish();  // to the disk, then to its name
  void discard();   // removes the part

 private:
  PartFile() = default;
  Status take_up();
  std::string from_path() const { return path_ + ".part.from"; }
  void close();

  std::string path_, source_, validator_;
  int fd_ = -1;
  uint64_t size_ = 0;
  Sha256 digest_;
};

// An exclusive lock on a file, which it creates. The kernel frees it when the process ends, however
// it ends; the file stays, because removing it would let two holders in.
class FileLock {
 public:
  // Waits while another process has it: calls `on_wait` once before, and `go_on` a few times a
  // second; that returning false is an Error.
  static Result<FileLock> acquire(const std::string& path, const std::function<void()>& on_wait,
                                  const std::function<bool()>& go_on);
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;

 private:
  FileLock() = default;
  int fd_ = -1;
};

}  // namespace pacer::http
