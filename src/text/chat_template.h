// A model's own chat template (Jinja, as shipped in the GGUF) applied to messages.
//
// The template runs in rust/text_ffi (minijinja), bounded in time and output. What users wrote is
// never parsed for special tokens: where a message contains the text of a control token, a guard
// character (one that occurs nowhere in the messages) is put inside it before rendering;
// encode_chat() leaves the guard out again after special tokens were recognised.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token.h"
#include "gguf/file.h"
#include "text/tokenizer.h"

namespace pacer::text {

struct RenderedChat {
  std::string text;   // may contain guards
  std::string guard;  // UTF-8 of the guard character; empty when none was needed

  std::string plain_text() const;  // without guards: what the model would really see
};

class ChatTemplate {
 public:
  // The template in tokenizer.chat_template, or ChatML when the file has none. Chats that offer
  // tools go through tokenizer.chat_template.tool_use where the file has that too.
  static Result<std::unique_ptr<ChatTemplate>> from_gguf(const gguf::File& file,
                                                         const Tokenizer& tokenizer);
  // One that the user wrote, for all chats.
  static Result<std::unique_ptr<ChatTemplate>> from_file(const std::string& path,
                                                         const Tokenizer& tokenizer);
  // Broken Jinja is an Error with the template engine's message. tool_use: for chats with tools.
  static Result<std::unique_ptr<ChatTemplate>> compile(
      std::string source, const Tokenizer& tokenizer,
      std::optional<std::string_view> tool_use = std::nullopt);
  ~ChatTemplate();

  // context_json: an object with "messages" (and "add_generation_prompt", "tools", ...); bos_token
  // and eos_token are added if absent. A template's own raise_exception is an Error
  // (kInvalidArgument) with its message. `now` is what a template that asks for the date
  // (strftime_now) is told, in UTC.
  Result<RenderedChat> render(
      std::string_view context_json,
      std::chrono::system_clock::time_point now = std::chrono::system_clock::now()) const;
  const std::string& source() const;
  // Whether the template that a chat with (or without) tools goes through has `variable` as a word
  // anywhere: if not, it cannot print it.
  bool names(std::string_view variable, bool with_tools) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Token ids of a rendered chat: control tokens of the template are recognised, those in content are
// plain text, and there is exactly one BOS where the model wants one, whether or not the template
// wrote it.
std::vector<TokenId> encode_chat(const Tokenizer& tokenizer, const RenderedChat& chat);

}  // namespace pacer::text
