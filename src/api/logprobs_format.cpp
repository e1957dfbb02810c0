#include "api/logprobs_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "api/json_format.h"
#include "base/check.h"
#include "text/utf8.h"

namespace pacer::api {

namespace {

void append_comma(std::string& list) {
  if (!list.empty()) list += ',';
}

// "token":"a","logprob":-0.1,"bytes":[97]
void append_chat_token(std::string& out, std::string_view bytes, float logprob) {
  out += R"("token":)";
  append_json_string(out, token_text(bytes));
  out += R"(,"logprob":)";
  append_json_logprob(out, logprob);
  out += R"(,"bytes":[)";
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    out += fmt::format_int(static_cast<unsigned char>(bytes[i])).c_str();
  }
  out += ']';
}

// Completions know a token only by its text; half a character is told apart as OpenAI does it.
std::string completion_token(std::string_view bytes) {
  return text::is_valid_utf8(bytes) ? std::string(bytes) : "bytes:" + token_text(bytes);
}

size_t character_count(std::string_view utf8) {
  return static_cast<size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // not a continuation byte
  }));
}

}  // namespace

LogprobsFormat::LogprobsFormat(AnswerKind kind, const text::Tokenizer& tokenizer)
    : kind_(kind), tokenizer_(tokenizer) {}

void LogprobsFormat::add(const SampledToken& token) {
  if (kind_ == AnswerKind::kChat) {
    add_chat(token);
  } else {
    add_completion(token);
  }
}

void LogprobsFormat::add_chat(const SampledToken& token) {
  append_comma(entries_);
  entries_ += '{';
  append_chat_token(entries_, tokenizer_.token_bytes(token.id), token.logprob);
  entries_ += R"(,"top_logprobs":[)";
  for (size_t i = 0; i < token.top.size(); ++i) {
    entries_ += i > 0 ? ",{" : "{";
    append_chat_token(entries_, tokenizer_.token_bytes(token.top[i].id), token.top[i].logprob);
    entries_ += '}';
  }
  entries_ += "]}";
}

void LogprobsFormat::add_completion(const SampledToken& token) {
  const std::string_view bytes = tokenizer_.token_bytes(token.id);
  append_entry(bytes, &token);
  if (!tokenizer_.is_special(token.id)) characters_ += character_count(utf8_.push(bytes));
}

std::string_view LogprobsFormat::add_first_of_prompt(TokenId token) {
  append_entry(tokenizer_.token_bytes(token), nullptr);
  return take_from_prompt(token);
}

std::string_view LogprobsFormat::add_of_prompt(const SampledToken& token) {
  append_entry(tokenizer_.token_bytes(token.id), &token);
  return take_from_prompt(token.id);
}

std::string_view LogprobsFormat::end_prompt() {
  if (prompt_ == nullptr) return {};
  const std::string_view text = std::exchange(prompt_, nullptr)->text;
  characters_ = character_count(text);
  utf8_ = {};
  return text.substr(prompt_bytes_said_);
}

// The characters that are whole with this token.
std::string_view LogprobsFormat::take_from_prompt(TokenId token) {
  const std::string said = utf8_.push(bytes_of_prompt(token));
  characters_ += character_count(said);
  const size_t begin = std::exchange(prompt_bytes_said_, prompt_bytes_said_ + said.size());
  return std::string_view(prompt_->text).substr(begin, said.size());
}

// The part of the prompt's text that a token stands for. Where the client wrote the text, this is
// not always the token's own: a BOS was put before it, some tokenizers put a space before a word at
// the beginning, some change characters.
std::string_view LogprobsFormat::bytes_of_prompt(TokenId token) {
  CHECK(prompt_ != nullptr, "a token of a prompt that there is none of");
  const std::string_view bytes = tokenizer_.token_bytes(token);
  if (!prompt_->is_written) return bytes;
  const std::string_view rest = std::string_view(prompt_->text).substr(prompt_bytes_);
  size_t size = std::min(bytes.size(), rest.size());
  if (!rest.starts_with(bytes)) {
    if (tokenizer_.is_special(token)) {
      size = 0;
    } else if (bytes.starts_with(' ') && rest.starts_with(bytes.substr(1))) {
      size = bytes.size() - 1;
    }
  }
  prompt_bytes_ += size;
  return rest.substr(0, size);
}

// One entry of each list; null for a token without log-probabilities.
void LogprobsFormat::append_entry(std::string_view bytes, const SampledToken* given) {
  const std::string text = completion_token(bytes);
  append_comma(tokens_);
  append_json_string(tokens_, text);
  append_comma(text_offsets_);
  text_offsets_ += fmt::format_int(characters_).c_str();
  append_comma(token_logprobs_);
  append_comma(top_logprobs_);
  if (given == nullptr) {
    token_logprobs_ += "null";
    top_logprobs_ += "null";
    return;
  }
  const SampledToken& token = *given;
  append_json_logprob(token_logprobs_, token.logprob);

  top_logprobs_ += '{';
  std::vector<std::string> seen = {text};  // a key may come once, and two tokens may look alike
  append_json_string(top_logprobs_, text);
  top_logprobs_ += ':';
  append_json_logprob(top_logprobs_, token.logprob);
  for (const TokenLogprob& other : token.top) {
    std::string key = completion_token(tokenizer_.token_bytes(other.id));
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) continue;
    top_logprobs_ += ',';
    append_json_string(top_logprobs_, key);
    top_logprobs_ += ':';
    append_json_logprob(top_logprobs_, other.logprob);
    seen.push_back(std::move(key));
  }
  top_logprobs_ += '}';
}

std::string LogprobsFormat::take() {
  std::string out;
  if (kind_ == AnswerKind::kChat) {
    if (entries_.empty()) return out;
    out = fmt::format(R"({{"content":[{}],"refusal":null}})", entries_);
    entries_.clear();
    return out;
  }
  if (tokens_.empty()) return out;
  out = fmt::format(
      R"({{"text_offset":[{}],"token_logprobs":[{}],"tokens":[{}],"top_logprobs":[{}]}})",
      text_offsets_, token_logprobs_, tokens_, top_logprobs_);
  for (std::string* list : {&tokens_, &token_logprobs_, &top_logprobs_, &text_offsets_}) {
    list->clear();
  }
  return out;
}

}  // namespace pacer::api
