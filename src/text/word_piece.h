// WordPiece ("bert"): text is cleaned, cut into words and marks, and each word is covered by the
// longest tokens there are, from its front; a word that cannot be covered is one unknown token.
//
// In GGUF files a token that begins a word begins with U+2581, and one that goes on does not ("##"
// elsewhere). The cleaning loses text: ids do not give it back.
#pragma once

#include <memory>

#include "base/result.h"
#include "text/text_encoder.h"
#include "text/vocabulary.h"

namespace pacer::text {

// Of a checked vocabulary.
std::unique_ptr<TextEncoder> make_word_piece_encoder(const Vocabulary& vocabulary);

}  // namespace pacer::text
