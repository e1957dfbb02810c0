// Both classes see a stream in arbitrary pieces and must answer as if they had seen it at once: all
// state is "how far could this still become something", so the cut between two pieces leaves no
// trace.

#include "text/stream_decoder.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace pacer::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

std::string Utf8Assembler::push(std::string_view bytes) {
  std::string joined = std::exchange(held_, {});
  joined.append(bytes);
  std::string out;
  out.reserve(joined.size());
  std::string_view rest = joined;
  while (!rest.empty()) {
    const Utf8Unit unit = next_utf8(rest);
    switch (unit.kind) {
      case Utf8Unit::Kind::kCharacter:
        out.append(rest.substr(0, unit.size));
        break;
      case Utf8Unit::Kind::kIllFormed:
        out.append(kReplacement);
        break;
      case Utf8Unit::Kind::kIncomplete:
        held_ = rest;
        return out;
    }
    rest.remove_prefix(unit.size);
  }
  return out;
}

std::string Utf8Assembler::finish() {
  // What is held is the beginning of one character, so one maximal subpart.
  const bool held = !std::exchange(held_, {}).empty();
  return held ? std::string(kReplacement) : std::string();
}

StopMatcher::StopMatcher(std::vector<std::string> stop_strings) {
  for (std::string& text : stop_strings) {
    // Neither can occur in the text, which is valid UTF-8: the empty one nowhere in particular, the
    // other nowhere.
    if (text.empty() || !is_valid_utf8(text)) continue;
    stops_.push_back({.text = std::move(text), .border = {}, .seen = 0});
  }
  for (Stop& stop : stops_) {
    // border[k]: the longest proper prefix of the first k+1 bytes that is also their end (Knuth,
    // Morris, Pratt 1977).
    stop.border.assign(stop.text.size(), 0);
    for (size_t i = 1, k = 0; i < stop.text.size(); ++i) {
      while (k > 0 && stop.text[i] != stop.text[k]) k = stop.border[k - 1];
      if (stop.text[i] == stop.text[k]) ++k;
      stop.border[i] = k;
    }
  }
}

void StopMatcher::Stop::advance(char byte) {
  while (seen > 0 && text[seen] != byte) seen = border[seen - 1];
  if (text[seen] == byte) ++seen;
}

StopMatcher::Output StopMatcher::push(std::string_view text) {
  if (stopped_) return {};
  std::string joined = std::exchange(held_, {});
  const size_t first_new = joined.size();
  joined.append(text);
  for (size_t end = first_new + 1; end <= joined.size(); ++end) {
    const Stop* matched = nullptr;  // the longest of those that end here
    for (Stop& stop : stops_) {
      stop.advance(joined[end - 1]);
      const bool whole = stop.seen == stop.text.size();
      if (whole && (!matched || stop.text.size() > matched->text.size())) matched = &stop;
    }
    if (matched) {
      stopped_ = true;
      joined.resize(end - matched->text.size());
      return {std::move(joined), matched->text};
    }
  }
  size_t held_size = 0;
  for (const Stop& stop : stops_) held_size = std::max(held_size, stop.seen);
  held_ = joined.substr(joined.size() - held_size);
  joined.resize(joined.size() - held_size);
  return {std::move(joined), std::nullopt};
}

std::string StopMatcher::finish() {
  stopped_ = true;
  return std::exchange(held_, {});
}

}  // namespace pacer::text
