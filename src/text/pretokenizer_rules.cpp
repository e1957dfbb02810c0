// The patterns are facts of the models: those of their own tokenizer.json files, and for rules of
// several stages the order in which they apply. One change throughout: \s and \S are written out.
// Oniguruma, which Hugging Face uses, takes the Unicode property White_Space for them, PCRE2 one
// character more (U+180E).

#include "text/pretokenizer_rules.h"

namespace pacer::text {
namespace {

#define WHITE_SPACE                                                                               \
  "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{" \
  "205f}\\x{3000}"
#define S "[" WHITE_SPACE "]"
#define NOT_S "[^" WHITE_SPACE "]"
// The ends that most patterns share. The last space before a word goes with the word.
#define SPACES "|" S "+(?!" NOT_S ")|" S "+"
#define LINE_BREAKS_AND_SPACES "|" S "*[\\r\\n]+" SPACES
#define CONTRACTION_ANY_CASE "(?i:'s|'t|'re|'ve|'m|'ll|'d)"

constexpr const char* kDigit = "\\p{N}";
constexpr const char* kDigits = "\\p{N}+";
constexpr const char* kDigitsInThrees = "\\p{N}{1,3}";
constexpr const char* kThreeDigits = "[0-9][0-9][0-9]";
constexpr const char* kLineBreak = "[\\r\\n]";

// Contractions; words, numbers and punctuation, each with at most one space before; white space.
constexpr const char* kGpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d"
    "| ?\\p{L}+| ?\\p{N}+| ?[^" WHITE_SPACE "\\p{L}\\p{N}]+" SPACES;

// As above, but: contractions in any case; any one character but a line break may lead a word;
// numbers in threes; punctuation takes the line breaks after it; line breaks end a run of white
// space.
constexpr const char* kLlama3 =
    CONTRACTION_ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^" WHITE_SPACE
                         "\\p{L}\\p{N}]+[\\r\\n]*" LINE_BREAKS_AND_SPACES;

// As llama-bpe, but digit by digit.
constexpr const char* kQwen2 =
    CONTRACTION_ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^" WHITE_SPACE
                         "\\p{L}\\p{N}]+[\\r\\n]*" LINE_BREAKS_AND_SPACES;

// As qwen2, but marks count as letters.
constexpr const char* kQwen35 =
    CONTRACTION_ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" WHITE_SPACE
                         "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" LINE_BREAKS_AND_SPACES;

// Words end where capitals begin after small letters.
#define CAPITALS "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define SMALL_LETTERS "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define WORD_OF_CASES(after)                                                                       \
  "[^\\r\\n\\p{L}\\p{N}]?" CAPITALS "*" SMALL_LETTERS "+" after "|[^\\r\\n\\p{L}\\p{N}]?" CAPITALS \
  "+" SMALL_LETTERS "*" after
#define PUNCTUATION_WITH_SLASHES \
  "| ?[^" WHITE_SPACE "\\p{L}\\p{N}]+[\\r\\n/]*" LINE_BREAKS_AND_SPACES
constexpr const char* kTekken = WORD_OF_CASES("") "|\\p{N}" PUNCTUATION_WITH_SLASHES;
constexpr const char* kGpt4o =
    WORD_OF_CASES(CONTRACTION_ANY_CASE "?") "|\\p{N}{1,3}" PUNCTUATION_WITH_SLASHES;

// DeepSeek's first tokenizers. Their classes of punctuation and of CJK include some white space,
// U+3000 above all; llama.cpp takes that for white space only, and so do we.
//
// Letters that have a case, as listed there (an older Unicode's).
#define CASED_LETTERS                                                                     \
  "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}"          \
  "\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}"  \
  "\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}"           \
  "\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"                \
  "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"          \
  "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}"          \
  "\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}" \
  "\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}"  \
  "\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}"          \
  "\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}"           \
  "\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}"            \
  "\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}" \
  "\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}"  \
  "\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"           \
  "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}"          \
  "\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}"        \
  "\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}"  \
  "\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"
constexpr const char* kDeepseekWord = S "?[" CASED_LETTERS "]+";
constexpr const char* kDeepseekPunctuation =
    S "?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3001}-\\x{3002}]+";
// "\\s+$", said so that a run that does not reach the end is not tried again from each of its
// places.
constexpr const char* kSpacesAtTheEnd = "(?<!" S ")" S "++\\z";
// All from U+0800 to U+9FA5, and Hangul.
constexpr const char* kDeepseekCjk =
    "[\\x{800}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}"
    "\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{9fa5}\\x{ac00}-\\x{d7ff}]+";

constexpr const char* kDeepseek3Cjk =
    "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+";
constexpr const char* kDeepseek3 =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
    "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\\r\\n]*" LINE_BREAKS_AND_SPACES;

constexpr const char* kSpaceAndLetters = S "?\\p{L}+";
constexpr const char* kSpaceAndPunctuation = S "?\\p{P}+";
constexpr const char* kFalconPunctuation = "[\\p{P}$+<=>^~|`]+";
constexpr const char* kDefaultPunctuation = "[\\p{P}$+<=>^~|]+";

constexpr PretokenizerRule kRules[] = {
    {{"gpt-2", "phi-2", "mpt", "olmo", "jais", "gigachat", "mellum", "exaone4", "trillion",
      "granite-docling"},
     {kGpt2}},
    {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"},
     {kDigit, kGpt2}},
    {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
     {kLlama3},
     /*ignore_merges=*/true,
     /*add_bos_by_default=*/true},
    {{"dbrx", "smaug-bpe", "chatglm-bpe"}, {kLlama3}},
    {{"glm4"}, {kLlama3}, /*ignore_merges=*/true},
    {{"qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan", "grok-2"}, {kQwen2}},
    {{"qwen35"}, {kQwen35}},
    {{"tekken"}, {kTekken}, /*ignore_merges=*/true, /*add_bos_by_default=*/true},
    {{"gpt-4o", "llama4"}, {kGpt4o}},
    {{"deepseek-llm"},
     {kLineBreak, kDeepseekWord, kDeepseekPunctuation, kSpacesAtTheEnd, kDeepseekCjk, kDigits}},
    {{"deepseek-coder"},
     {kLineBreak, kSpaceAndLetters, kSpaceAndPunctuation, kDeepseekCjk, kDigit}},
    {{"deepseek-v3"}, {kDigitsInThrees, kDeepseek3Cjk, kDeepseek3}},
    {{"falcon"}, {kFalconPunctuation, kGpt2, kThreeDigits}},
    {{"default"}, {kDefaultPunctuation, kGpt2, kDigits, kThreeDigits}},
};

}  // namespace

std::span<const PretokenizerRule> pretokenizer_rules() {
  return kRules;
}

const PretokenizerRule* find_pretokenizer_rule(std::string_view name) {
  if (name.empty()) return nullptr;  // what the unused places of `names` hold
  for (const PretokenizerRule& rule : kRules) {
    for (const std::string_view known : rule.names) {
      if (known == name) return &rule;
    }
  }
  return nullptr;
}

}  // namespace pacer::text
