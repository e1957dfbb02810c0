#include "api/prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "api/json_format.h"
#include "base/math.h"

namespace pacer::api {

namespace {

Error invalid(std::string name, std::string message) {
  return Error{Code::kInvalidArgument, std::move(message), std::move(name)};
}

// --- messages ---

// OpenAI's name for the system role of its newer models; templates know only "system".
constexpr std::string_view kDeveloper = "developer";
constexpr std::array<std::string_view, 5> kRoles = {"system", kDeveloper, "user", "assistant",
                                                    "tool"};
constexpr size_t kNameBytesMax = 256;

std::string read_role(Fields& message) {
  const Json* role = message.find("role");
  if (role != nullptr && role->is_string()) {
    const auto& name = role->get_ref<const std::string&>();
    if (name == kDeveloper) return "system";
    if (std::find(kRoles.begin(), kRoles.end(), name) != kRoles.end()) return name;
  }
  message.fail("role", "one of system, developer, user, assistant, tool",
               role != nullptr ? *role : Json());
  return {};
}

// {"type": "text", "text": "..."}; anything else is refused by the name of its type.
std::string read_text_part(const Json& part, const std::string& name, Fields& message) {
  if (!part.is_object()) {
    message.fail(
        invalid(name, fmt::format("'{}' must be an object, not {}", name, describe(part))));
    return {};
  }
  Fields fields(part, name);
  const std::string type = fields.string("type", kNameBytesMax).value_or("");
  const Json* text = fields.find("text");
  if (fields.ok() && type != "text") {
    fields.fail(Error{Code::kUnsupported,
                      fmt::format("'{}' is a part of type '{}'; only 'text' is supported", name,
                                  shortened(type, 40)),
                      name});
  } else if (fields.ok() && (text == nullptr || !text->is_string())) {
    fields.fail("text", "a string", text != nullptr ? *text : Json());
  }
  if (fields.ok()) return text->get<std::string>();
  message.fail(fields.error());
  return {};
}

std::string read_content(Fields& message, const std::string& role) {
  const Json* content = message.find("content");
  if (content == nullptr) {
    // An assistant turn in a history may have had no text.
    if (role != "assistant") message.fail("content", "a string or a list of text parts", Json());
    return {};
  }
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    message.fail("content", "a string or a list of text parts", *content);
    return {};
  }
  std::string text;
  for (size_t i = 0; i < content->size(); ++i) {
    if (i > 0) text += '\n';  // as vLLM and llama.cpp join parts
    text += read_text_part((*content)[i], fmt::format("{}[{}]", message.full_name("content"), i),
                           message);
  }
  return text;
}

// What a message may carry that we do not do yet.
void refuse_in_message(Fields& message) {
  for (const std::string_view name : {"tool_calls", "function_call", "audio", "refusal"}) {
    const Json* value = message.find(name);
    if (value == nullptr || is_empty_value(*value)) continue;
    const std::string full = message.full_name(name);
    message.fail(Error{Code::kUnsupported, fmt::format("'{}' is not supported", full), full});
  }
}

Json read_message(const Json& value, const std::string& name, Fields& fields,
                  FieldWarnings& warnings) {
  if (!value.is_object()) {
    fields.fail(
        invalid(name, fmt::format("'{}' must be an object, not {}", name, describe(value))));
    return {};
  }
  Fields message(value, name);
  Json out;
  const std::string role = read_role(message);
  out["role"] = role;
  out["content"] = read_content(message, role);
  for (const char* optional : {"name", "tool_call_id"}) {
    if (const auto text = message.string(optional, kNameBytesMax)) out[optional] = *text;
  }
  refuse_in_message(message);
  if (!message.ok()) fields.fail(message.error());
  for (const std::string_view unread : message.unread()) {
    warnings.warn(fmt::format("messages[].{}", unread));
  }
  return out;
}

// What a template sees under these names is decided by other fields.
constexpr std::array<std::string_view, 5> kReservedKwargs = {
    "messages", "tools", "add_generation_prompt", "bos_token", "eos_token"};

void add_template_kwargs(Fields& fields, Json& chat) {
  const Json* kwargs = fields.object("chat_template_kwargs");
  if (kwargs == nullptr) return;
  if (kwargs->size() > kTemplateKwargsMax) {
    fields.fail(
        invalid("chat_template_kwargs",
                fmt::format("'chat_template_kwargs' has {} keys, but at most {} are allowed",
                            kwargs->size(), kTemplateKwargsMax)));
    return;
  }
  for (const auto& [key, value] : kwargs->items()) {
    if (std::find(kReservedKwargs.begin(), kReservedKwargs.end(), key) != kReservedKwargs.end()) {
      const std::string name = "chat_template_kwargs." + key;
      fields.fail(invalid(name, fmt::format("'{}' cannot be set here", name)));
    }
    chat[key] = value;
  }
}

// --- texts and ids ---

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

Result<std::vector<TokenId>> read_one_prompt(const Json& value, const std::string& name,
                                             const ApiContext& context) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text.empty()) return invalid(name, fmt::format("'{}' is empty", name));
    TRY(check_text_may_fit(text, name, context));
    std::vector<TokenId> tokens = context.tokenizer.encode(text);
    if (tokens.empty()) return invalid(name, fmt::format("'{}' has no tokens", name));
    TRY(check_tokens_fit(tokens.size(), name, context));
    return tokens;
  }
  if (value.is_array()) {
    if (value.empty()) return invalid(name, fmt::format("'{}' is empty", name));
    return read_token_ids(value, name, context.tokenizer);
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

Json read_chat(Fields& fields, FieldWarnings& warnings) {
  Json chat = Json::object();
  chat["messages"] = Json::array();
  const Json* messages = fields.find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    fields.fail("messages", "a list of at least one message",
                messages != nullptr ? *messages : Json());
    return chat;
  }
  if (messages->size() > kMessagesMax) {
    fields.fail(
        invalid("messages", fmt::format("'messages' has {} messages, but at most {} are allowed",
                                        messages->size(), kMessagesMax)));
    return chat;
  }
  for (size_t i = 0; i < messages->size() && fields.ok(); ++i) {
    chat["messages"].push_back(
        read_message((*messages)[i], fmt::format("messages[{}]", i), fields, warnings));
  }
  chat["add_generation_prompt"] = fields.boolean("add_generation_prompt", true);
  add_template_kwargs(fields, chat);
  return chat;
}

Result<std::vector<TokenId>> encode_chat(const Json& chat, const ApiContext& context) {
  Result<text::RenderedChat> rendered = context.chat_template.render(chat.dump());
  if (!rendered) {
    Error error = rendered.error();
    error.param = "messages";
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

Result<std::vector<std::vector<TokenId>>> read_prompts(Fields& fields, const ApiContext& context) {
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) return invalid("prompt", "'prompt' is missing");
  std::vector<std::vector<TokenId>> prompts;
  // A list of numbers is one prompt; a list of anything else is a list of prompts.
  const bool is_list = prompt->is_array() && !prompt->empty() && !prompt->front().is_number();
  if (!is_list) {
    ASSIGN_OR_RETURN(auto tokens, read_one_prompt(*prompt, "prompt", context));
    prompts.push_back(std::move(tokens));
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
    ASSIGN_OR_RETURN(auto tokens,
                     read_one_prompt((*prompt)[i], fmt::format("prompt[{}]", i), context));
    prompts.push_back(std::move(tokens));
  }
  return prompts;
}

Result<std::vector<TokenId>> read_token_ids(const Json& array, const std::string& name,
                                            const text::Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  ids.reserve(array.size());
  const int64_t count = tokenizer.vocabulary_size();
  for (size_t i = 0; i < array.size(); ++i) {
    const std::optional<int64_t> id = as_integer(array[i]);
    if (!id || *id < 0 || *id >= count) {
      const std::string element = fmt::format("{}[{}]", name, i);
      return invalid(element, fmt::format("'{}' must be a token id in [0, {}], not {}", element,
                                          count - 1, describe(array[i])));
    }
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

}  // namespace pacer::api
