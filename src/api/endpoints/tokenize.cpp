// POST /tokenize, in vLLM's shape: the token ids of a prompt, or of messages as a chat would see
// them, without running anything.
#include <fmt/format.h>

#include <utility>

#include "api/endpoints/endpoints.h"
#include "api/error_format.h"
#include "api/field_rules.h"
#include "api/json_body.h"
#include "api/json_format.h"
#include "api/messages.h"
#include "api/open_chat.h"
#include "api/prompts.h"

namespace pacer::api {

namespace {

// About 0.1 s of an I/O thread, which also has to answer /health.
constexpr size_t kTextBytesMax = 1 << 20;

struct Tokens {
  std::vector<TokenId> ids;
  bool with_strings = false;
};

Result<Tokens> read_request(const http::Request& request, ApiContext& context) {
  ASSIGN_OR_RETURN(const Json body, parse_json_object(request.body));
  Fields fields(body);
  check_model(fields, context);
  Tokens tokens;
  tokens.with_strings = fields.boolean("return_token_strs", false);
  const Json* prompt = fields.find("prompt");
  const Json* messages = fields.find("messages");
  if ((prompt == nullptr) == (messages == nullptr)) {
    return error(Code::kInvalidArgument, "give either 'prompt' or 'messages'");
  }
  if (prompt != nullptr) {
    if (!prompt->is_string()) fields.fail("prompt", "a string", *prompt);
    if (!fields.ok()) return fields.error();
    const auto& text = prompt->get_ref<const std::string&>();
    if (text.size() > kTextBytesMax) {
      return Error{Code::kTooLarge,
                   fmt::format("'prompt' has {} bytes, but at most {} are tokenised in one request",
                               text.size(), kTextBytesMax),
                   "prompt"};
    }
    const text::EncodeOptions encode = read_encode_options(fields);
    check_other_fields(fields, context.field_warnings);
    if (!fields.ok()) return fields.error();
    // An empty prompt is fine here: it has no tokens, or a BOS.
    tokens.ids = context.tokenizer.encode(text, encode);
    return tokens;
  }
  const Json chat = read_chat(fields, context.chat_template, context.field_warnings);
  const bool continue_final_message = read_continue_final_message(fields, chat);
  check_other_fields(fields, context.field_warnings);
  if (!fields.ok()) return fields.error();
  ASSIGN_OR_RETURN(tokens.ids, encode_chat(chat, continue_final_message, context));
  return tokens;
}

std::string strings_json(const std::vector<TokenId>& ids, const text::Tokenizer& tokenizer) {
  std::string out = "[";
  for (const TokenId id : ids) {
    if (out.size() > 1) out += ',';
    append_json_string(out, token_text(tokenizer.token_bytes(id)));
  }
  return out + "]";
}

}  // namespace

void tokenize(ApiContext& context, const http::Request& request, Writer writer) {
  const Result<Tokens> tokens = read_request(request, context);
  if (!tokens) return writer->send(error_response(tokens.error()));
  std::string ids;
  append_json_ids(ids, tokens->ids);
  writer->send(json_response(
      200,
      fmt::format(R"({{"count":{},"max_model_len":{},"tokens":{},"token_strs":{}}})",
                  tokens->ids.size(), context.engine.length_max(), ids,
                  tokens->with_strings ? strings_json(tokens->ids, context.tokenizer) : "null")));
}

}  // namespace pacer::api
