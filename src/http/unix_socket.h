// The file of a unix socket: made room for before the server binds it, and removed afterwards.
//
// A server that was killed leaves its file behind, and bind() refuses a path that exists. So a
// socket there that nobody answers is removed; whatever else is there is left alone. Two servers
// that start on one stale path in the same moment may both think so: the second has it.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"

namespace pacer::http {

// Before bind(): an Error says why nothing can listen at `path`.
Status clear_unix_socket_path(const std::string& path);

// A socket file that is ours. Removes it in the end, unless another has taken its place by then.
class UnixSocketFile {
 public:
  UnixSocketFile() = default;  // none
  UnixSocketFile(const UnixSocketFile&) = delete;
  UnixSocketFile& operator=(const UnixSocketFile&) = delete;
  ~UnixSocketFile() { remove(); }

  // After bind() and before listen(), when nobody can have connected: owner and group may.
  Status adopt(const std::string& path);
  void remove();

 private:
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace pacer::http
