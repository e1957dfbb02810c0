#include "api/answer_format.h"

#include <fmt/format.h>

#include "api/json_format.h"

namespace pacer::api {

namespace {

std::string head_json(const AnswerFormat::Head& head, std::string_view object) {
  return fmt::format(
      R"({{"id":{},"object":"{}","created":{},"model":{},"system_fingerprint":{},"choices":[)",
      json_string(head.id), object, head.created_unix_s, json_string(head.model),
      json_string(head.fingerprint));
}

void append_member(std::string& out, std::string_view name, std::string_view json) {
  if (json.empty()) return;
  out += ",\"";
  out += name;
  out += "\":";
  out += json;
}

void append_index(std::string& out, uint32_t index) {
  out += R"({"index":)";
  out += fmt::format_int(index).c_str();
}

}  // namespace

std::string sse_event(std::string_view json) {
  return fmt::format("data: {}\n\n", json);
}

std::string usage_json(const Usage& usage) {
  return fmt::format(R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{}}})",
                     usage.prompt_tokens, usage.output_tokens,
                     usage.prompt_tokens + usage.output_tokens);
}

AnswerFormat::AnswerFormat(AnswerKind kind, const Head& head)
    : kind_(kind),
      // Completions call a chunk by the same name as the whole.
      chunk_head_("data: " + head_json(head, kind == AnswerKind::kChat ? "chat.completion.chunk"
                                                                       : "text_completion")),
      whole_head_(
          head_json(head, kind == AnswerKind::kChat ? "chat.completion" : "text_completion")) {}

// "logprobs", "finish_reason", and what vLLM adds.
void AnswerFormat::append_tail(std::string& out, const ChoicePart& part) const {
  append_member(out, "logprobs", part.logprobs.empty() ? "null" : part.logprobs);
  out += R"(,"finish_reason":)";
  if (part.finish_reason == nullptr) {
    out += "null";
  } else {
    out += '"';
    out += part.finish_reason;
    out += '"';
  }
  append_member(out, "token_ids", part.token_ids);
  // vLLM has them in the choice where a request may have several prompts, else beside the choices.
  if (kind_ == AnswerKind::kCompletion) append_member(out, "prompt_token_ids", part.prompt_ids);
  out += '}';
}

void AnswerFormat::append_stream_choice(std::string& out, const ChoicePart& part,
                                        std::string_view delta, std::string_view usage) const {
  out += chunk_head_;
  append_index(out, part.index);
  if (kind_ == AnswerKind::kChat) {
    append_member(out, "delta", delta);
  } else {
    out += R"(,"text":)";
    append_json_string(out, part.text);
  }
  append_tail(out, part);
  out += ']';
  append_member(out, "usage", usage);
  if (kind_ == AnswerKind::kChat) append_member(out, "prompt_token_ids", part.prompt_ids);
  out += "}\n\n";
}

void AnswerFormat::append_role_chunk(std::string& out, const ChoicePart& part,
                                     std::string_view usage) const {
  append_stream_choice(out, part, R"({"role":"assistant","content":""})", usage);
}

void AnswerFormat::append_chunk(std::string& out, const ChoicePart& part,
                                std::string_view usage) const {
  std::string delta = "{";
  if (kind_ == AnswerKind::kChat && part.finish_reason == nullptr) {
    delta += R"("content":)";
    append_json_string(delta, part.text);
  }
  delta += '}';
  append_stream_choice(out, part, delta, usage);
}

void AnswerFormat::append_usage_chunk(std::string& out, const Usage& usage) const {
  out += chunk_head_;
  out += ']';
  append_member(out, "usage", usage_json(usage));
  out += "}\n\n";
}

void AnswerFormat::append_choice(std::string& out, const ChoicePart& part) const {
  append_index(out, part.index);
  if (kind_ == AnswerKind::kChat) {
    out += R"(,"message":{"role":"assistant","content":)";
    append_json_string(out, part.text);
    out += R"(,"refusal":null})";
  } else {
    out += R"(,"text":)";
    append_json_string(out, part.text);
  }
  append_tail(out, part);
}

std::string AnswerFormat::whole(std::string_view choices, std::string_view prompt_ids,
                                const Usage& usage) const {
  std::string out = whole_head_;
  out += choices;
  out += ']';
  append_member(out, "usage", usage_json(usage));
  if (kind_ == AnswerKind::kChat) append_member(out, "prompt_token_ids", prompt_ids);
  out += '}';
  return out;
}

}  // namespace pacer::api
