// Token bytes to text that can be sent: never half a character, never a stop string or a part of
// one.
//
// One per request, used by the engine thread. Concatenated, what push() and finish() return is the
// whole answer; it is always valid UTF-8 (bytes that never become a character are U+FFFD, by the
// substitution of maximal subparts, Unicode 15 section 3.9).
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
//
// The answer ends where, reading byte by byte, a stop string is first complete; of several complete
// there, the longest counts. So the result does not depend on how the text was cut into pieces.
// After a match nothing more comes out.
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
  struct Stop {
    std::string text;
    std::vector<size_t> border;  // [text.size()], see the constructor
    size_t seen = 0;  // the text so far ends with the first `seen` bytes of this stop string
    void advance(char byte);
  };

  std::vector<Stop> stops_;  // empty ones are left out
  std::string held_;         // as long as the largest `seen`
  bool stopped_ = false;
};

}  // namespace pacer::text
