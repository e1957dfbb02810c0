// How a log line is kept one line, and valid JSON, whatever is in it. Internal to the log.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace pacer::log {

// A JSON string with its quotes. What is no UTF-8 becomes U+FFFD.
void append_json_string(std::string& out, std::string_view text);

// Control characters, line breaks above all, become \xHH: nobody can forge a second line.
std::string one_line(std::string_view text);

// As it is where that is unmistakable in "name=value name=value", else as a JSON string.
void append_text_value(std::string& out, std::string_view value);

// {"time":"...","level":"...",FIELDS} and a newline. fields: "\"message\":...".
std::string json_line(std::chrono::system_clock::time_point time, std::string_view level,
                      std::string_view fields);

}  // namespace pacer::log
