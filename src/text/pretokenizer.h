// Cuts text into the pieces that byte-pair encoding may not merge across: words with their space,
// runs of digits, punctuation, white space. Which cuts is a property of the model
// ("tokenizer.ggml.pre").
//
// Patterns run in PCRE2, compiled once; split() is thread-safe. To add one: a row in kRules
// (pretokenizer_rules.cpp).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pacer::text {

class Pretokenizer {
 public:
  // Unknown names are refused with the list of known ones.
  static Result<std::unique_ptr<Pretokenizer>> create(std::string_view name);
  ~Pretokenizer();

  // Appends the pieces of `text`: back to back they are `text`, and none is empty. Any bytes; ones
  // that are no character are pieces of their own.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const;

  // A piece that is in the vocabulary as a whole is that token, whatever the merges say.
  bool ignore_merges() const;

 private:
  struct Impl;
  explicit Pretokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// What a model with this pre-tokenizer does where the file does not say
// (tokenizer.ggml.add_bos_token).
bool add_bos_by_default(std::string_view pretokenizer_name);

}  // namespace pacer::text
