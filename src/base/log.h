// The program's log: spdlog behind one name, so that a log line is `log::info("loaded {} in {}",
// ...)`.
//
// Goes to stderr. Never called on the step path with arguments that must be formatted: count there
// instead. Never given prompt text.
#pragma once

#include <spdlog/spdlog.h>

namespace pacer::log {

using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

// Once, in main: format, stderr, level ("debug" | "info" | "warn" | "error" | "off").
void init(const char* level);

}  // namespace pacer::log
