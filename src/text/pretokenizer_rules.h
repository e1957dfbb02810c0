// The pre-tokenizers that GGUF files name ("tokenizer.ggml.pre"), as data: which patterns, in which
// order, and what else goes with the name. How they are applied is pretokenizer.cpp's.
#pragma once

#include <array>
#include <span>
#include <string_view>

namespace pacer::text {

struct PretokenizerRule {
  // What a file may call it; the first is its own name, the others are models that cut the same
  // way.
  std::array<std::string_view, 10> names;
  std::array<const char*, 6> patterns;  // PCRE2, in this order; null: no more
  bool ignore_merges = false;
  bool add_bos_by_default = false;
};

std::span<const PretokenizerRule> pretokenizer_rules();

// By any of its names; null: unknown.
const PretokenizerRule* find_pretokenizer_rule(std::string_view name);

}  // namespace pacer::text
