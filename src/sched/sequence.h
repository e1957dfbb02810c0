// A request inside the engine: its tokens, how far the KV cache holds them, and its blocks.
//
// Owned by the Scheduler; executors read it, nobody else writes it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/token.h"
#include "kv/block_manager.h"

namespace pacer::sched {

enum class SeqId : uint64_t {};

constexpr uint64_t value(SeqId id) {
  return static_cast<uint64_t>(id);
}

//   kWaiting --admit--> kRunning --finish--> (gone)
//       ^                  |
//       +-----preempt------+      (blocks given back; its tokens are computed again later)
enum class SeqState : uint8_t { kWaiting, kRunning };

struct Sequence {
  SeqId id{};
  SeqState state = SeqState::kWaiting;
  std::vector<TokenId> tokens;  // the prompt, then what was generated
  uint32_t prompt_length = 0;
  uint32_t length_max = 0;  // prompt + max_tokens: it never needs more blocks than for this
  uint32_t computed = 0;  // tokens whose keys and values are in its blocks; always < tokens.size()
  uint32_t preemptions = 0;
  kv::BlockTable blocks;
  SamplingParams sampling;
  // Prompt tokens whose log-probabilities are known, of those that are wanted: of all but the
  // first, which has none. Counts on across preemptions, so that each is told once.
  bool scores_prompt = false;
  uint32_t scored = 1;
  TimePoint arrived{};  // at the HTTP front

  uint32_t length() const { return static_cast<uint32_t>(tokens.size()); }
  uint32_t output_length() const { return length() - prompt_length; }
  uint32_t pending() const {
    return length() - computed;
  }  // tokens to run before the next can be sampled
  bool scoring() const { return scores_prompt && scored < prompt_length; }
  bool decoding() const { return output_length() > 0 && pending() == 1; }
};

}  // namespace pacer::sched
