// What an answer looks like on the wire, in OpenAI's shapes: whole, or as SSE chunks.
//
// Pure formatting: values in, text out. Made once per response; what is the same in every chunk
// (id, model, time) is built then, so that a token costs one escaped string and a few appends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/generation_options.h"

namespace pacer::api {

constexpr std::string_view kSseDone = "data: [DONE]\n\n";
constexpr std::string_view kSsePing = ": ping\n\n";

// "data: {...}\n\n"
std::string sse_event(std::string_view json);

struct Usage {
  uint64_t prompt_tokens = 0;
  uint64_t output_tokens = 0;
};

// One choice, or a piece of it. Parts that are JSON already are passed on; empty ones are left out
// or null.
struct ChoicePart {
  uint32_t index = 0;
  std::string_view text{};
  std::string_view logprobs{};    // JSON object; empty: null
  std::string_view token_ids{};   // JSON list; empty: no such member
  std::string_view prompt_ids{};  // JSON list; empty: no such member
  const char* finish_reason = nullptr;
};

class AnswerFormat {
 public:
  struct Head {
    std::string id;
    int64_t created_unix_s = 0;
    std::string model;
    std::string fingerprint;
  };
  AnswerFormat(AnswerKind kind, const Head& head);

  // --- stream. usage: "" for no such member, else JSON (may be "null"). ---

  // Chat only: the first chunk of a choice, which says who speaks.
  void append_role_chunk(std::string& out, const ChoicePart& part, std::string_view usage) const;
  // Chat: text in the delta; an empty delta where the part has a finish_reason.
  void append_chunk(std::string& out, const ChoicePart& part, std::string_view usage) const;
  // The last one, without choices.
  void append_usage_chunk(std::string& out, const Usage& usage) const;

  // --- whole: the choices as made by append_choice, with commas between. prompt_ids: chat only.
  // ---

  void append_choice(std::string& out, const ChoicePart& part) const;
  std::string whole(std::string_view choices, std::string_view prompt_ids,
                    const Usage& usage) const;

 private:
  void append_stream_choice(std::string& out, const ChoicePart& part, std::string_view delta,
                            std::string_view usage) const;
  void append_tail(std::string& out, const ChoicePart& part) const;

  AnswerKind kind_;
  std::string chunk_head_;  // data: {"id":...,"choices":[
  std::string whole_head_;  // {"id":...,"choices":[
};

std::string usage_json(const Usage& usage);

}  // namespace pacer::api
