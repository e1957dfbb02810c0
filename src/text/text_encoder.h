// What the three kinds of tokenizers have in common: text that holds no special token becomes ids.
//
// Tokenizer (tokenizer.h) cuts special tokens out and calls this for what lies between them.
// Read-only once made, so thread-safe.
#pragma once

#include <string_view>
#include <vector>

#include "base/token.h"

namespace pacer::text {

class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  // Appends the ids of `text`, which is not empty and may be any bytes. `at_start`: nothing, or a
  // special token, lies before it.
  virtual void encode(std::string_view text, bool at_start, std::vector<TokenId>& ids) const = 0;
};

}  // namespace pacer::text
