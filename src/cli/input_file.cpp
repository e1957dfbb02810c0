#include "cli/input_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/human.h"

namespace pacer::cli {

namespace {

struct CloseFile {
  void operator()(std::FILE* file) const {
    if (file != stdin) std::fclose(file);
  }
};

}  // namespace

Result<std::string> read_input(const std::string& path, uint64_t bytes_max) {
  const std::string name = path == "-" ? "standard input" : path;
  const std::unique_ptr<std::FILE, CloseFile> file(path == "-" ? stdin
                                                               : std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return error(Code::kIo, "cannot open {}: {}", path, std::strerror(errno));
  std::string bytes;
  char chunk[1 << 16];
  while (true) {
    const size_t count = std::fread(chunk, 1, sizeof chunk, file.get());
    bytes.append(chunk, count);
    if (bytes.size() > bytes_max) {
      return error(Code::kTooLarge, "{} has more than {}, which is the limit", name,
                   human_bytes(bytes_max));
    }
    if (count == sizeof chunk) continue;
    if (std::ferror(file.get()) != 0) {
      return error(Code::kIo, "cannot read {}: {}", name, std::strerror(errno));
    }
    return bytes;
  }
}

}  // namespace pacer::cli
