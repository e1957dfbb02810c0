#include "http/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace pacer::http {
namespace {

constexpr mode_t kMode = 0660;
constexpr size_t kPathMax = sizeof(sockaddr_un::sun_path) - 1;

// 0: somebody answers there; else the errno of connect().
int try_connect(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  const int code = connected ? 0 : errno;
  ::close(fd);
  return code == EAGAIN ? 0 : code;  // its queue is full, so somebody is there
}

}  // namespace

Status clear_unix_socket_path(const std::string& path) {
  if (path.size() > kPathMax || path.find('\0') != std::string::npos) {
    return error(Code::kInvalidArgument,
                 "cannot listen on the unix socket '{}': its path has {} bytes, of {} at most",
                 path, path.size(), kPathMax);
  }
  struct stat there {};
  if (lstat(path.c_str(), &there) != 0) {
    if (errno == ENOENT) return Ok{};  // bind() says whether its folder is there
    return error(Code::kIo, "cannot listen on the unix socket '{}': {}", path,
                 std::strerror(errno));
  }
  if (!S_ISSOCK(there.st_mode)) {
    return error(Code::kIo, "cannot listen on the unix socket '{}': another kind of file is there",
                 path);
  }
  const int code = try_connect(path);
  if (code == 0) {
    return error(Code::kIo, "cannot listen on the unix socket '{}': another server answers there",
                 path);
  }
  if (code != ECONNREFUSED || unlink(path.c_str()) != 0) {
    return error(Code::kIo, "cannot replace the unix socket '{}': {}", path,
                 std::strerror(code != ECONNREFUSED ? code : errno));
  }
  return Ok{};
}

Status UnixSocketFile::adopt(const std::string& path) {
  struct stat there {};
  if (chmod(path.c_str(), kMode) != 0 || lstat(path.c_str(), &there) != 0) {
    return error(Code::kIo, "cannot set the mode of the unix socket '{}': {}", path,
                 std::strerror(errno));
  }
  path_ = path;
  device_ = there.st_dev;
  inode_ = there.st_ino;
  return Ok{};
}

void UnixSocketFile::remove() {
  if (path_.empty()) return;
  struct stat there {};
  const bool ours = lstat(path_.c_str(), &there) == 0 && there.st_dev == device_ &&
                    there.st_ino == inode_ && S_ISSOCK(there.st_mode);
  if (ours) unlink(path_.c_str());
  path_.clear();
}

}  // namespace pacer::http
