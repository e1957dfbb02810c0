// For tests only: an executor without a model, whose next token is any function of the sequence so
// far.
#pragma once

#include <functional>
#include <utility>

#include "sched/executor.h"

namespace pacer::sched {

class ScriptedExecutor final : public Executor {
 public:
  // next: the token after these; nothing: as if the logits were NaN.
  using Next = std::function<std::optional<TokenId>(const Sequence&)>;
  explicit ScriptedExecutor(Next next) : next_(std::move(next)) {}

  // Runs before each step; an Error fails the step.
  void before_step(std::function<Status()> hook) { hook_ = std::move(hook); }
  uint64_t steps() const { return steps_; }
  uint64_t tokens_run() const { return tokens_run_; }

  Result<StepResult> run(std::span<const StepItem> items) override {
    steps_ += 1;
    if (hook_) TRY(hook_());
    StepResult result;
    for (const StepItem& item : items) {
      tokens_run_ += item.count;
      for (uint32_t i = 0; i < item.score_count; ++i) {
        result.scored.push_back(score(*item.sequence, item.score_first + i));
      }
      if (!item.sample) continue;
      const std::optional<TokenId> id = next_(*item.sequence);
      if (!id) {
        result.tokens.emplace_back();
        continue;
      }
      SampledToken token{.id = *id, .logprob = -0.5f, .top = {}};
      for (uint32_t i = 0; i < item.sequence->sampling.logprobs.value_or(0); ++i) {
        token.top.push_back({.id = token.id + i, .logprob = -0.5f - static_cast<float>(i)});
      }
      result.tokens.push_back(std::move(token));
    }
    return result;
  }

  // A prompt token's log-probability says where it stands.
  static SampledToken score(const Sequence& seq, uint32_t position) {
    return {.id = seq.tokens[position], .logprob = -static_cast<float>(position) / 1000, .top = {}};
  }

 private:
  Next next_;
  std::function<Status()> hook_;
  uint64_t steps_ = 0;
  uint64_t tokens_run_ = 0;
};

// Says the prompt again, then `end` for ever.
inline ScriptedExecutor::Next echo_prompt(TokenId end) {
  return [end](const Sequence& seq) {
    const uint32_t index = seq.output_length();
    return index < seq.prompt_length ? seq.tokens[index] : end;
  };
}

}  // namespace pacer::sched
