// A rule is a list of patterns applied in turn: the pieces of the first are cut further by the
// second. A match is a piece, and so is what lies between two matches.
//
// Text is first cut into stretches of valid UTF-8, so that PCRE2 need not check: its own handling
// of invalid text (PCRE2_MATCH_INVALID_UTF) checks the whole rest of the text at every match where
// there is no JIT, which would make a long prompt quadratic.

#include "text/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/ranges.h>
#include <pcre2.h>

#include <span>
#include <utility>

#include "base/check.h"
#include "text/pretokenizer_rules.h"
#include "text/utf8.h"

namespace pacer::text {
namespace {

struct CodeDeleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct MatchDeleter {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
using Pattern = std::unique_ptr<pcre2_code, CodeDeleter>;
using Match = std::unique_ptr<pcre2_match_data, MatchDeleter>;

Pattern compile(const char* pattern) {
  int error_code = 0;
  size_t offset = 0;
  Pattern code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                             PCRE2_UTF | PCRE2_UCP, &error_code, &offset, nullptr));
  CHECK(code != nullptr, "pattern '{}': PCRE2 error {} at {}", pattern, error_code, offset);
  // Without JIT (a machine may forbid it) the interpreter gives the same matches, some ten times
  // slower.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return code;
}

// The next match in valid UTF-8 `text` from `start` on, or an empty view at its end.
std::string_view find_match(const pcre2_code* code, pcre2_match_data* match, std::string_view text,
                            size_t start) {
  const int count = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), start,
                                PCRE2_NO_UTF_CHECK, match, nullptr);
  // No match is the normal end. An error (its limits on stack or steps, which these patterns do not
  // come near) ends the cutting too: the rest is then one piece, which costs nothing but a few
  // tokens.
  if (count <= 0) return text.substr(text.size());
  const size_t* bounds = pcre2_get_ovector_pointer(match);
  return text.substr(bounds[0], bounds[1] - bounds[0]);
}

}  // namespace

struct Pretokenizer::Impl {
  const PretokenizerRule* rule = nullptr;
  std::vector<Pattern> stages;

  void split_valid(std::span<const Match> matches, size_t stage, std::string_view text,
                   std::vector<std::string_view>& pieces) const;
};

// Recursion is as deep as there are stages.
void Pretokenizer::Impl::split_valid(std::span<const Match> matches, size_t stage,
                                     std::string_view text,
                                     std::vector<std::string_view>& pieces) const {
  if (text.empty()) return;
  if (stage == stages.size()) {
    pieces.push_back(text);
    return;
  }
  size_t done = 0;
  while (done < text.size()) {
    const std::string_view found =
        find_match(stages[stage].get(), matches[stage].get(), text, done);
    const auto begin = static_cast<size_t>(found.data() - text.data());
    split_valid(matches, stage + 1, text.substr(done, begin - done), pieces);
    split_valid(matches, stage + 1, found, pieces);
    done = begin + found.size();
  }
}

Result<std::unique_ptr<Pretokenizer>> Pretokenizer::create(std::string_view name) {
  const PretokenizerRule* rule = find_pretokenizer_rule(name);
  if (rule == nullptr) {
    std::vector<std::string_view> known;
    for (const PretokenizerRule& r : pretokenizer_rules()) {
      for (const std::string_view known_name : r.names) {
        if (!known_name.empty()) known.push_back(known_name);
      }
    }
    return error(Code::kUnsupported, "pre-tokenizer '{}' is unknown; known are {}", name,
                 fmt::join(known, ", "));
  }
  auto impl = std::make_unique<Impl>();
  impl->rule = rule;
  for (const char* pattern : rule->patterns) {
    if (pattern != nullptr) impl->stages.push_back(compile(pattern));
  }
  return std::unique_ptr<Pretokenizer>(new Pretokenizer(std::move(impl)));
}

Pretokenizer::Pretokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pretokenizer::~Pretokenizer() = default;

void Pretokenizer::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  std::vector<Match> matches;  // per call, so that threads share only the compiled patterns
  for (const Pattern& code : impl_->stages) {
    matches.emplace_back(pcre2_match_data_create_from_pattern(code.get(), nullptr));
    CHECK(matches.back() != nullptr, "no memory for a PCRE2 match block");
  }
  while (!text.empty()) {
    // The longest stretch of one kind: characters, or bytes that are none.
    size_t size = 0;
    bool valid = true;
    while (size < text.size()) {
      const Utf8Unit unit = next_utf8(text.substr(size));
      const bool is_character = unit.kind == Utf8Unit::Kind::kCharacter;
      if (size == 0) valid = is_character;
      if (is_character != valid) break;
      size += unit.size;
    }
    const std::string_view stretch = text.substr(0, size);
    if (valid) {
      impl_->split_valid(matches, 0, stretch, pieces);
    } else {
      pieces.push_back(stretch);
    }
    text.remove_prefix(size);
  }
}

bool Pretokenizer::ignore_merges() const {
  return impl_->rule->ignore_merges;
}

bool add_bos_by_default(std::string_view pretokenizer_name) {
  const PretokenizerRule* rule = find_pretokenizer_rule(pretokenizer_name);
  return rule != nullptr && rule->add_bos_by_default;
}

}  // namespace pacer::text
