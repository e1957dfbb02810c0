#include "api/field_rules.h"

#include <fmt/format.h>

#include "api/json_format.h"
#include "base/log.h"

namespace pacer::api {

namespace {

bool never(const Json&) {
  return false;
}
bool always(const Json&) {
  return true;
}
bool is_false(const Json& value) {
  return value.is_boolean() && !value.get<bool>();
}
bool is_true(const Json& value) {
  return value.is_boolean() && value.get<bool>();
}
bool is_zero(const Json& value) {
  return value.is_number() && value.get<double>() == 0.0;
}
bool is_one(const Json& value) {
  return value.is_number() && value.get<double>() == 1.0;
}
bool is_minus_one(const Json& value) {
  return value.is_number() && value.get<double>() == -1.0;
}
bool is_none_or_auto(const Json& value) {
  return value == "none" || value == "auto";
}
bool is_none(const Json& value) {
  return value == "none";
}
bool is_text_format(const Json& value) {
  return value.is_object() && value.value("type", Json()) == "text";
}
bool is_text_only(const Json& value) {
  return value == Json::array({"text"});
}

struct Rule {
  std::string_view name;
  bool (*changes_nothing)(const Json&);
  std::string_view accepted;  // for the message: "only 0 is accepted"
};

// OpenAI's fields first, then vLLM's. null is accepted for all of them. A rule holds where the
// endpoint has not read the field: `tools` is for chats, `parse_special` for plain prompts.
constexpr Rule kRules[] = {
    {"user", always, ""},
    {"metadata", always, ""},
    {"service_tier", always, ""},
    {"safety_identifier", always, ""},
    {"prompt_cache_key", always, ""},
    {"prompt_cache_retention", always, ""},
    {"prompt_cache_options", always, ""},
    {"store", is_false, "false"},
    {"tools", is_empty_value, "an empty list"},
    {"tool_choice", is_none_or_auto, "\"none\" or \"auto\""},
    {"parallel_tool_calls", always, ""},
    {"functions", is_empty_value, "an empty list"},
    {"function_call", is_none_or_auto, "\"none\" or \"auto\""},
    {"response_format", is_text_format, "{\"type\": \"text\"}"},
    {"suffix", is_empty_value, "an empty string"},
    {"echo", is_false, "false"},
    {"audio", never, "null"},
    {"modalities", is_text_only, "[\"text\"]"},
    {"prediction", never, "null"},
    {"moderation", never, "null"},
    {"reasoning_effort", is_none, "\"none\""},
    {"verbosity", [](const Json& value) { return value == "medium"; }, "\"medium\""},
    {"web_search_options", never, "null"},

    {"length_penalty", is_one, "1"},
    {"use_beam_search", is_false, "false"},
    {"bad_words", is_empty_value, "an empty list"},
    {"allowed_token_ids", never, "null"},
    {"include_stop_str_in_output", is_false, "false"},
    {"skip_special_tokens", is_true, "true"},
    {"spaces_between_special_tokens", always, ""},
    {"truncate_prompt_tokens", never, "null"},
    {"prompt_logprobs", never, "null"},
    {"return_tokens_as_token_ids", is_false, "false"},
    {"continue_final_message", is_false, "false"},
    {"add_special_tokens", is_false, "false"},
    {"parse_special", is_false, "false"},
    {"chat_template", never, "null"},
    {"documents", is_empty_value, "an empty list"},
    {"structured_outputs", never, "null"},
    {"guided_json", never, "null"},
    {"guided_regex", never, "null"},
    {"guided_choice", never, "null"},
    {"guided_grammar", never, "null"},
    {"prompt_embeds", never, "null"},
    {"logits_processors", is_empty_value, "an empty list"},
    {"priority", is_zero, "0"},
    // There is no prefix cache that a salt could separate yet; the day there is one, this is read.
    {"cache_salt", always, ""},
    {"request_id", always, ""},
    {"session_id", always, ""},
    {"watermarking", is_false, "false"},
    {"truncation_side", never, "null"},
    {"logprob_token_ids", never, "null"},
    {"guided_decoding_backend", never, "null"},
    {"guided_whitespace_pattern", never, "null"},
    {"include_reasoning", is_true, "true"},
    {"thinking_token_budget", is_minus_one, "-1"},
    {"repetition_detection", never, "null"},
    {"stream_interval", is_one, "1"},
    {"media_io_kwargs", is_empty_value, "an empty object"},
    {"mm_processor_kwargs", is_empty_value, "an empty object"},
    {"kv_transfer_params", never, "null"},
    {"ec_transfer_params", never, "null"},
    {"vllm_xargs", is_empty_value, "an empty object"},
    {"return_prompt_text", is_false, "false"},
    {"return_token_offsets", is_false, "false"},
};

void apply(const Rule& rule, Fields& fields) {
  if (fields.is_read(rule.name)) return;
  const Json* value = fields.find(rule.name);
  if (value == nullptr || rule.changes_nothing(*value)) return;
  const std::string name = fields.full_name(rule.name);
  Error refusal =
      error(Code::kUnsupported, "'{}' is not supported; only {} is accepted", name, rule.accepted);
  refusal.param = name;
  fields.fail(std::move(refusal));
}

}  // namespace

void FieldWarnings::warn(std::string_view name) {
  {
    const std::lock_guard lock(mutex_);
    if (names_.size() == kNamesMax || names_.contains(name)) return;
    names_.emplace(name);
  }
  // As JSON, so that no name can forge a log line.
  log::warn("unknown request field {}: ignored (said once per name)",
            json_string(shortened(name, 64)));
}

size_t FieldWarnings::count() const {
  const std::lock_guard lock(mutex_);
  return names_.size();
}

void check_other_fields(Fields& fields, FieldWarnings& warnings) {
  for (const Rule& rule : kRules) apply(rule, fields);
  if (!fields.ok()) return;
  for (const std::string_view name : fields.unread()) {
    warnings.warn(shortened(fields.full_name(name), 64));
  }
}

}  // namespace pacer::api
