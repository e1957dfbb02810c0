#include "api/json_format.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <utility>

namespace pacer::api {

namespace {

struct Character {
  size_t length;     // bytes
  bool well_formed;  // else: the maximal subpart of an ill-formed sequence
};

// The character that starts at text[0], by table 3-7 of the Unicode standard.
Character next_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, true};

  size_t tail = 0;
  unsigned char low = 0x80, high = 0xbf;  // of the second byte
  if (lead >= 0xc2 && lead <= 0xdf) {
    tail = 1;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    tail = 2;
    if (lead == 0xe0) low = 0xa0;   // no overlong forms
    if (lead == 0xed) high = 0x9f;  // no surrogates
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    tail = 3;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;  // nothing above U+10FFFF
  } else {
    return {1, false};
  }
  for (size_t i = 1; i <= tail; ++i) {
    if (i >= text.size() || byte(i) < low || byte(i) > high) return {i, false};
    low = 0x80;
    high = 0xbf;
  }
  return {tail + 1, true};
}

void append_escaped(std::string& out, unsigned char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
  }
}

bool needs_escape(unsigned char c) {
  return c < 0x20 || c == '"' || c == '\\';
}

// Characters that are legal inside a JSON string, but at which line readers (Python's splitlines,
// for one) break a line.
const char* line_separator_escape(std::string_view character) {
  if (character == "\xc2\x85") return "\\u0085";
  if (character == "\xe2\x80\xa8") return "\\u2028";
  if (character == "\xe2\x80\xa9") return "\\u2029";
  return nullptr;
}

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  size_t i = 0;
  while (i < text.size()) {
    // The common case first: a run of plain ASCII is copied at once.
    size_t end = i;
    while (end < text.size() && static_cast<unsigned char>(text[end]) < 0x80 &&
           !needs_escape(static_cast<unsigned char>(text[end]))) {
      ++end;
    }
    out.append(text, i, end - i);
    i = end;
    if (i == text.size()) break;

    if (const auto c = static_cast<unsigned char>(text[i]); c < 0x80) {
      append_escaped(out, c);
      ++i;
      continue;
    }
    const Character character = next_character(text.substr(i));
    const std::string_view bytes = text.substr(i, character.length);
    if (!character.well_formed) {
      out += kReplacement;
    } else if (const char* escape = line_separator_escape(bytes)) {
      out += escape;
    } else {
      out += bytes;
    }
    i += character.length;
  }
  out += '"';
}

std::string json_string(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  append_json_string(out, text);
  return out;
}

void append_json_logprob(std::string& out, float logprob) {
  constexpr float kAlmostNever = -9999.0f;
  if (!std::isfinite(logprob)) logprob = kAlmostNever;
  fmt::format_to(std::back_inserter(out), "{}",
                 logprob);  // the shortest text that reads back equal
}

void append_json_ids(std::string& out, std::span<const TokenId> ids) {
  out += '[';
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    out += fmt::format_int(ids[i]).c_str();
  }
  out += ']';
}

std::string token_text(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const Character character = next_character(bytes);
    for (size_t i = 0; i < character.length; ++i) {
      if (character.well_formed) {
        out += bytes[i];
      } else {
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(bytes[i]));
      }
    }
    bytes.remove_prefix(character.length);
  }
  return out;
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const Character character = next_character(text);
    if (!character.well_formed) return false;
    text.remove_prefix(character.length);
  }
  return true;
}

std::string shortened(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  size_t end = 0;
  while (true) {
    const size_t length = next_character(text.substr(end)).length;
    if (end + length > max_bytes) break;
    end += length;
  }
  return std::string(text.substr(0, end)) + "...";
}

http::Response json_response(int status, std::string body) {
  http::Response response;
  response.status = status;
  response.headers.add("Content-Type", "application/json");
  response.body = std::move(body);
  return response;
}

}  // namespace pacer::api
