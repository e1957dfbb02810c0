// From what a client wrote to prompt tokens: messages through the model's chat template, or plain
// prompts as text or ids. Stop 3 of a request's walk, seen from the API.
//
// Runs on an I/O thread. A text that cannot fit the context, however it is tokenised, is refused
// before anyone tokenises it.
#pragma once

#include <string>
#include <vector>

#include "api/context.h"
#include "api/json_fields.h"

namespace pacer::api {

// Bounds on what one request may make an I/O thread do, which also has to answer /health.
constexpr size_t kPromptsMax = 64;                // in one completions request
constexpr size_t kPromptListBytesMax = 1u << 20;  // of all their texts
constexpr size_t kMessagesMax = 4096;
constexpr size_t kTemplateKwargsMax = 64;

// The `model` field: absent, or the one we serve.
void check_model(Fields& fields, const ApiContext& context);

// "messages" and what goes with them, as the object that a chat template gets. Errors stick to
// `fields`. Roles, text parts and their joining are normalised: see docs/api.md.
Json read_chat(Fields& fields, FieldWarnings& warnings);
Result<std::vector<TokenId>> encode_chat(const Json& chat, const ApiContext& context);

// "prompt": a string, a list of token ids, or a list of either. Each in its own row.
Result<std::vector<std::vector<TokenId>>> read_prompts(Fields& fields, const ApiContext& context);

// Ids of a JSON array, each checked against the vocabulary.
Result<std::vector<TokenId>> read_token_ids(const Json& array, const std::string& name,
                                            const text::Tokenizer& tokenizer);

}  // namespace pacer::api
