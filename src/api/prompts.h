// From what a client wrote to prompt tokens: messages through the model's chat template, or plain
// prompts as text or ids. Stop 3 of a request's walk, seen from the API.
//
// Runs on an I/O thread. A text that cannot fit the context, however it is tokenised, is refused
// before anyone tokenises it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/context.h"
#include "api/json_fields.h"

namespace pacer::api {

// Bounds on what one request may make an I/O thread do, which also has to answer /health.
constexpr size_t kPromptsMax = 64;                // in one completions request
constexpr size_t kPromptListBytesMax = 1u << 20;  // of all their texts

struct Prompt {
  std::vector<TokenId> tokens{};
  std::optional<std::string> text{};  // where it was given as text
};

// The `model` field: absent, or the one we serve.
void check_model(Fields& fields, const ApiContext& context);

// What read_chat() (messages.h) gave, through the chat template. continue_final_message: see
// open_chat.h.
Result<std::vector<TokenId>> encode_chat(const Json& chat, bool continue_final_message,
                                         const ApiContext& context);

// "add_special_tokens" and "parse_special", for prompts that are text.
text::EncodeOptions read_encode_options(Fields& fields);
// "prompt": a string, a list of token ids, or a list of either. Each in its own row.
Result<std::vector<Prompt>> read_prompts(Fields& fields, const text::EncodeOptions& encode,
                                         const ApiContext& context);

}  // namespace pacer::api
