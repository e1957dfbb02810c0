// Two references agree on nearly everything here. Where they differ this follows llama.cpp, since
// its conversion wrote the files: of a decomposed character only the base stays (Hangul: the first
// Jamo), all marks count as accents (also those with a width of their own, as in Devanagari), and a
// word may have any length.

#include "text/word_piece.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "text/token_index.h"
#include "text/token_text.h"
#include "text/utf8.h"

namespace pacer::text {
namespace {

// Of a code point. llama.cpp and Hugging Face use the Unicode property White_Space.
bool is_white_space(char32_t point) {
  return (point >= 0x09 && point <= 0x0D) || point == 0x20 || point == 0x85 || point == 0xA0 ||
         point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 ||
         point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

bool is_mark(utf8proc_category_t category) {
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_ME;
}

bool is_control(utf8proc_category_t category) {
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO || category == UTF8PROC_CATEGORY_CS;
}

bool is_punctuation(utf8proc_category_t category) {
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool is_symbol(utf8proc_category_t category) {
  return category >= UTF8PROC_CATEGORY_SM && category <= UTF8PROC_CATEGORY_SO;
}

// Characters that are words of their own in Chinese text. Two of the bounds are not what Unicode
// says (extension E begins at 2B820): they are what BERT's tokenizer was published with.
bool is_chinese(char32_t point) {
  constexpr std::array<std::pair<char32_t, char32_t>, 8> kRanges = {{{0x4E00, 0x9FFF},
                                                                     {0x3400, 0x4DBF},
                                                                     {0x20000, 0x2A6DF},
                                                                     {0x2A700, 0x2B73F},
                                                                     {0x2B740, 0x2B81F},
                                                                     {0x2B920, 0x2CEAF},
                                                                     {0xF900, 0xFAFF},
                                                                     {0x2F800, 0x2FA1F}}};
  return std::any_of(kRanges.begin(), kRanges.end(), [&](const auto& range) {
    return point >= range.first && point <= range.second;
  });
}

// The base of a character that is composed of several; itself otherwise.
char32_t base_of(char32_t point) {
  std::array<utf8proc_int32_t, 32> parts;  // the longest canonical decomposition has 4
  int last_class = 0;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(point), parts.data(),
                                             parts.size(), UTF8PROC_DECOMPOSE, &last_class);
  return count > 0 ? static_cast<char32_t>(parts[0]) : point;
}

class WordPieceEncoder final : public TextEncoder {
 public:
  explicit WordPieceEncoder(const Vocabulary& vocabulary)
      : lowercase_(vocabulary.lowercase),
        strip_accents_(vocabulary.strip_accents),
        index_(vocabulary.tokens.size()),
        unknown_(vocabulary.unknown) {
    for (TokenId id = 0; id < vocabulary.tokens.size(); ++id) {
      if (is_special_kind(vocabulary.kinds[id])) continue;
      index_.add(vocabulary.tokens[id], id);
    }
  }

  void encode(std::string_view text, bool at_start, std::vector<TokenId>& ids) const override;

 private:
  // Adds a character to `word`, which it may end.
  void read_character(char32_t point, std::string& word, std::vector<TokenId>& ids) const;
  void end_word(std::string& word, std::vector<TokenId>& ids) const;

  bool lowercase_, strip_accents_;
  TokenIndex index_;
  std::optional<TokenId> unknown_;
};

void WordPieceEncoder::encode(std::string_view text, bool /*at_start*/,
                              std::vector<TokenId>& ids) const {
  LenientText lenient;
  if (!is_valid_utf8(text)) {
    lenient = read_leniently(text);
    text = lenient.shape;
  }
  std::string word;
  while (!text.empty()) {
    const size_t size = next_utf8(text).size;
    read_character(code_point_of(text.substr(0, size)), word, ids);
    text.remove_prefix(size);
  }
  end_word(word, ids);
}

void WordPieceEncoder::read_character(char32_t point, std::string& word,
                                      std::vector<TokenId>& ids) const {
  if (strip_accents_ && point >= 0x80) point = base_of(point);
  if (is_white_space(point)) return end_word(word, ids);
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(point));
  if (point == 0 || point == 0xFFFD || is_control(category)) return;
  if (strip_accents_ && is_mark(category)) return;

  const bool stands_alone =
      is_punctuation(category) || (point < 0x7F && is_symbol(category)) || is_chinese(point);
  if (stands_alone) end_word(word, ids);
  if (lowercase_) {
    point = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(point)));
  }
  if (word.empty()) word = kStoredSpace;
  append_utf8(word, point);
  if (stands_alone) end_word(word, ids);
}

// Leaves `word` empty.
void WordPieceEncoder::end_word(std::string& word, std::vector<TokenId>& ids) const {
  const size_t before = ids.size();
  for (std::string_view rest = word; !rest.empty();) {
    size_t size = std::min(rest.size(), index_.text_size_max());
    std::optional<TokenId> id;
    for (; size > 0; --size) {
      id = index_.find(rest.substr(0, size));
      if (id) break;
    }
    if (!id) {
      ids.resize(before);
      if (unknown_) ids.push_back(*unknown_);
      break;
    }
    ids.push_back(*id);
    rest.remove_prefix(size);
  }
  word.clear();
}

}  // namespace

std::unique_ptr<TextEncoder> make_word_piece_encoder(const Vocabulary& vocabulary) {
  return std::make_unique<WordPieceEncoder>(vocabulary);
}

}  // namespace pacer::text
