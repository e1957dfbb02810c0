// SentencePiece-style BPE ("llama"): the characters of a text are joined, best score first; what is
// no token in the end is written as bytes ("<0xE2>").
//
// A space is U+2581 in the vocabulary. Text comes back from its ids where the vocabulary has all
// byte tokens; not so a U+2581 of its own, and a space right after half a character.
#pragma once

#include <memory>

#include "base/result.h"
#include "text/text_encoder.h"
#include "text/vocabulary.h"

namespace pacer::text {

// Of a checked vocabulary.
std::unique_ptr<TextEncoder> make_sentence_piece_encoder(const Vocabulary& vocabulary);

}  // namespace pacer::text
