#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace pacer::log {

void init(const char* level) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("pacer"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%-5l%$ %v");
  spdlog::set_level(spdlog::level::from_str(level));
}

}  // namespace pacer::log
