#include "http/request_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace pacer::http {

bool is_request_id(std::string_view text) {
  return !text.empty() && text.size() <= kRequestIdBytesMax &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

std::string random_request_id() {
  thread_local std::random_device source;  // it may hold a file, so one for each I/O thread
  std::string id;
  for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", static_cast<uint32_t>(source()));
  return id;
}

}  // namespace pacer::http
