#include "api/json_format.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <utility>

#include "text/utf8.h"

namespace pacer::api {

namespace {

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

void append_json_string(std::string& out, std::string_view in) {
  out += '"';
  size_t i = 0;
  while (i < in.size()) {
    // The common case first: a run of plain ASCII is copied at once.
    size_t end = i;
    while (end < in.size() && static_cast<unsigned char>(in[end]) < 0x80 &&
           !needs_escape(static_cast<unsigned char>(in[end]))) {
      ++end;
    }
    out.append(in, i, end - i);
    i = end;
    if (i == in.size()) break;

    if (const auto c = static_cast<unsigned char>(in[i]); c < 0x80) {
      append_escaped(out, c);
      ++i;
      continue;
    }
    const text::Utf8Unit unit = text::next_utf8(in.substr(i));
    const std::string_view bytes = in.substr(i, unit.size);
    if (unit.kind != text::Utf8Unit::Kind::kCharacter) {
      out += kReplacement;
    } else if (const char* escape = line_separator_escape(bytes)) {
      out += escape;
    } else {
      out += bytes;
    }
    i += unit.size;
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
    const text::Utf8Unit unit = text::next_utf8(bytes);
    for (const char c : bytes.substr(0, unit.size)) {
      if (unit.kind == text::Utf8Unit::Kind::kCharacter) {
        out += c;
      } else {
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(c));
      }
    }
    bytes.remove_prefix(unit.size);
  }
  return out;
}

std::string shortened(std::string_view in, size_t max_bytes) {
  if (in.size() <= max_bytes) return std::string(in);
  size_t end = 0;
  while (true) {
    const size_t size = text::next_utf8(in.substr(end)).size;
    if (end + size > max_bytes) break;
    end += size;
  }
  return std::string(in.substr(0, end)) + "...";
}

http::Response json_response(int status, std::string body) {
  http::Response response;
  response.status = status;
  response.headers.add("Content-Type", "application/json");
  response.body = std::move(body);
  return response;
}

}  // namespace pacer::api
