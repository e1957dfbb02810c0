// Reads a tokenizer's vocabulary from a GGUF file and says what is wrong with one.
#pragma once

#include "base/result.h"
#include "gguf/file.h"
#include "text/tokenizer.h"

namespace pacer::text {

Result<Vocabulary> read_vocabulary(const gguf::File& file);

// Lengths, ids, texts of special tokens. What only building finds (merges, pre-tokenizer) is
// checked there.
Status check_vocabulary(const Vocabulary& vocabulary);

}  // namespace pacer::text
