// Byte-level BPE ("gpt2"): the pre-tokenizer cuts text into pieces, and each piece's bytes are
// merged.
//
// A merge whose text is no token merges all the same, and what is left of it in the end is written
// as the tokens of its bytes.
//
// Ill-formed UTF-8 is read as llama.cpp reads it, so that ids are equal: each byte that begins no
// character is U+FFFD. Such text therefore does not come back from its ids; all other text does.
#pragma once

#include <memory>

#include "base/result.h"
#include "text/text_encoder.h"
#include "text/vocabulary.h"

namespace pacer::text {

// Of a checked vocabulary. An Error names the merge or the pre-tokenizer that is wrong.
Result<std::unique_ptr<TextEncoder>> make_byte_level_encoder(const Vocabulary& vocabulary);

}  // namespace pacer::text
