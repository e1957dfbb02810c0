// Token bytes to text that can be sent: never half a character, never a stop string or a part of one.
//
// One per request, used by the engine thread. Concatenated, what push() and finish() return is the whole answer; it is
// always valid UTF-8 (bytes that never become a character are U+FFFD, by the substitution of maximal subparts,
// Unicode 15 section 3.9).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pacer::text {

// Holds back the bytes of an unfinished character.
class Utf8Assembler {
 public:
  std::string push(std::string_view bytes);  // all characters that are complete now
  std::string finish();                      // what was held, as U+FFFD

 private:
  std::string held_;
};

// Holds back only what is a proper prefix of a stop string.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stop_strings);

  struct Output {
    std::string text;                    // to send now
    std::optional<std::string> matched;  // the stop string that ended the answer: cut before it
  };
  Output push(std::string_view text);
  std::string finish();  // what was held back and is no stop string after all

 private:
  std::vector<std::string> stops_;
  std::string held_;
};

}  // namespace pacer::text
