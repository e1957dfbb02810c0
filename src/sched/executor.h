// Runs a step: the seam between deciding and computing. Real (runner/model_executor), scripted
// (tests), simulated.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/token.h"
#include "sched/sequence.h"

namespace pacer::sched {

// Tokens [first, first + count) of a sequence, whose keys and values go into its blocks.
struct StepItem {
  const Sequence* sequence;
  uint32_t first;
  uint32_t count;
  bool sample;  // these are its last pending tokens: choose the next one
  // Prompt tokens [score_first, score_first + score_count) are wanted with their log-probabilities,
  // each given those before it: the tokens before them are among those that this item runs.
  uint32_t score_first = 0;
  uint32_t score_count = 0;
};

struct StepResult {
  // One for each item with `sample`, in the order of the items. Nothing: the logits were no numbers
  // (NaN, infinity), and that sequence must be ended.
  std::vector<std::optional<SampledToken>> tokens;
  // score_count for each item, in the order of the items. Nothing: as above.
  std::vector<std::optional<SampledToken>> scored{};
};

class Executor {
 public:
  virtual ~Executor() = default;
  // An Error fails every sequence of the step, not the engine.
  virtual Result<StepResult> run(std::span<const StepItem> items) = 0;
};

}  // namespace pacer::sched
