#include "api/prompts.h"

#include <fmt/format.h>

#include <utility>

#include "api/json_format.h"
#include "api/open_chat.h"
#include "api/token_ids.h"
#include "base/math.h"

namespace pacer::api {

namespace {

Error invalid(std::string name, std::string message) {
  return Error{Code::kInvalidArgument, std::move(message), std::move(name)};
}

// Fails a text that has too many bytes even if each token were the longest of the vocabulary:
// tokenising it would only burn time.
Status check_text_may_fit(std::string_view text, std::string name, const ApiContext& context) {
  const size_t tokens_min = div_ceil<size_t>(text.size(), context.token_bytes_max);
  const size_t limit = context.engine.config().max_model_len;
  if (tokens_min < limit) return Ok{};
  context.metrics.on_rejected(metrics::RejectedReason::kTooLong);
  return Error{Code::kTooLarge,
               fmt::format("the prompt has {} bytes, at least {} tokens, but the context holds {}",
                           text.size(), tokens_min, limit),
               std::move(name)};
}

// Before the next prompt of a list is tokenised, not after all of them.
Status check_tokens_fit(size_t tokens, std::string name, const ApiContext& context) {
  const size_t limit = context.engine.config().max_model_len;
  if (tokens < limit) return Ok{};
  context.metrics.on_rejected(metrics::RejectedReason::kTooLong);
  return Error{Code::kTooLarge,
               fmt::format("the prompt has {} tokens, but the context holds {}, answer included",
                           tokens, limit),
               std::move(name)};
}

Result<Prompt> read_one_prompt(const Json& value, const std::string& name,
                               const text::EncodeOptions& encode, const ApiContext& context) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text.empty()) return invalid(name, fmt::format("'{}' is empty", name));
    TRY(check_text_may_fit(text, name, context));
    std::vector<TokenId> tokens = context.tokenizer.encode(text, encode);
    if (tokens.empty()) return invalid(name, fmt::format("'{}' has no tokens", name));
    TRY(check_tokens_fit(tokens.size(), name, context));
    return Prompt{.tokens = std::move(tokens), .text = text};
  }
  if (value.is_array()) {
    if (value.empty()) return invalid(name, fmt::format("'{}' is empty", name));
    ASSIGN_OR_RETURN(auto tokens, read_token_ids(value, name, context.tokenizer.vocabulary_size()));
    return Prompt{.tokens = std::move(tokens)};
  }
  return invalid(name, fmt::format("'{}' must be a string or a list of token ids, not {}", name,
                                   describe(value)));
}

}  // namespace

void check_model(Fields& fields, const ApiContext& context) {
  const Json* model = fields.find("model");
  if (model == nullptr || *model == context.model_name) return;
  if (!model->is_string()) return fields.fail("model", "a string", *model);
  fields.fail(
      Error{Code::kNotFound,
            fmt::format("the model '{}' does not exist here; '{}' does",
                        shortened(model->get_ref<const std::string&>(), 200), context.model_name),
            "model"});
}

text::EncodeOptions read_encode_options(Fields& fields) {
  return {.add_special = fields.boolean("add_special_tokens", true),
          .parse_special = fields.boolean("parse_special", true)};
}

Result<std::vector<TokenId>> encode_chat(const Json& chat, bool continue_final_message,
                                         const ApiContext& context) {
  Result<text::RenderedChat> rendered = continue_final_message
                                            ? render_open_chat(chat, context.chat_template)
                                            : context.chat_template.render(chat.dump());
  if (!rendered) {
    Error error = rendered.error();
    if (error.param.empty()) error.param = "messages";
    return error;
  }
  TRY(check_text_may_fit(rendered->guard.empty() ? rendered->text : rendered->plain_text(),
                         "messages", context));
  std::vector<TokenId> tokens = text::encode_chat(context.tokenizer, *rendered);
  if (tokens.empty()) {
    return invalid("messages", "the model's chat template makes an empty prompt of 'messages'");
  }
  return tokens;
}

Result<std::vector<Prompt>> read_prompts(Fields& fields, const text::EncodeOptions& encode,
                                         const ApiContext& context) {
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) return invalid("prompt", "'prompt' is missing");
  std::vector<Prompt> prompts;
  // A list of numbers is one prompt; a list of anything else is a list of prompts.
  const bool is_list = prompt->is_array() && !prompt->empty() && !prompt->front().is_number();
  if (!is_list) {
    ASSIGN_OR_RETURN(Prompt only, read_one_prompt(*prompt, "prompt", encode, context));
    prompts.push_back(std::move(only));
    return prompts;
  }
  if (prompt->size() > kPromptsMax) {
    return invalid("prompt", fmt::format("'prompt' has {} prompts, but at most {} are allowed",
                                         prompt->size(), kPromptsMax));
  }
  size_t bytes = 0;
  for (const Json& text : *prompt) {
    if (text.is_string()) bytes += text.get_ref<const std::string&>().size();
  }
  if (bytes > kPromptListBytesMax) {
    return Error{Code::kTooLarge,
                 fmt::format("the prompts have {} bytes together, but at most {} are allowed",
                             bytes, kPromptListBytesMax),
                 "prompt"};
  }
  for (size_t i = 0; i < prompt->size(); ++i) {
    ASSIGN_OR_RETURN(Prompt next,
                     read_one_prompt((*prompt)[i], fmt::format("prompt[{}]", i), encode, context));
    prompts.push_back(std::move(next));
  }
  return prompts;
}

}  // namespace pacer::api
