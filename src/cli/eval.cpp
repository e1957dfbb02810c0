// pacer eval: the perplexity of a text, so that anyone can check a kernel tier or a weight format.
//
// Non-overlapping windows of the text's tokens, encoded without special tokens. A model that wants
// a BOS gets one before each window; without one the first token of a window is not scored. The
// figure goes to stdout, progress to stderr.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/input_file.h"
#include "cli/model_source.h"
#include "kernels/kernel_table.h"
#include "model/evaluation.h"
#include "sys/cpu_features.h"
#include "text/tokenizer.h"

namespace pacer::cli {

namespace {

struct EvalFlags {
  std::string model;
  std::string text = "-";
  uint32_t window_tokens = 512;
  uint32_t windows = 0;  // 0: all
  std::optional<uint32_t> threads;
};

// The text cut into windows; what is left at the end and is no whole window is left out, unless
// there is no other.
std::vector<std::span<const TokenId>> cut(std::span<const TokenId> tokens, const EvalFlags& flags) {
  std::vector<std::span<const TokenId>> windows;
  while (tokens.size() >= flags.window_tokens) {
    windows.push_back(tokens.first(flags.window_tokens));
    tokens = tokens.subspan(flags.window_tokens);
  }
  if (windows.empty()) windows.push_back(tokens);
  if (flags.windows > 0 && windows.size() > flags.windows) windows.resize(flags.windows);
  return windows;
}

Status eval(const EvalFlags& flags) {
  ASSIGN_OR_RETURN(const std::string text, read_input(flags.text));
  sys::cpu_features();  // before any worker exists: the AMX permission is per process
  ASSIGN_OR_RETURN(const kernels::KernelTable* kernels, kernels::choose_kernels());
  ASSIGN_OR_RETURN(const std::string path, resolve_model(flags.model));
  ASSIGN_OR_RETURN(const gguf::File file, gguf::File::open(path));
  ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::from_gguf(file));
  const std::vector<TokenId> tokens =
      tokenizer->encode(text, {.add_special = false, .parse_special = false});
  const std::optional<TokenId> bos = tokenizer->adds_bos() ? tokenizer->bos() : std::nullopt;
  if (tokens.size() + (bos ? 1 : 0) < 2) {
    return error(Code::kInvalidArgument, "{}: {} tokens are too few to predict one from another",
                 flags.text, tokens.size());
  }

  sys::ThreadPool pool(std::min(flags.threads.value_or(sys::cpu_limits().threads), 1024u));
  ASSIGN_OR_RETURN(const auto evaluator,
                   model::Evaluator::create(file, *kernels, pool, flags.window_tokens));
  sys::set_denormals_to_zero();
  const auto windows = cut(tokens, flags);
  model::Loss loss;
  for (size_t i = 0; i < windows.size(); ++i) {
    loss.add(evaluator->window_loss(windows[i], bos));
    log::info("window {} of {}: perplexity so far {:.4f}", i + 1, windows.size(),
              loss.perplexity());
  }
  if (!std::isfinite(loss.sum)) {
    return error(Code::kBadFile, "{}: the model computed no number for some token of the text",
                 path);
  }
  fmt::print("perplexity {:.4f} +- {:.4f} over {} tokens ({} windows of {} tokens{}, {} kernels)\n",
             loss.perplexity(), loss.perplexity_error(), loss.tokens, windows.size(),
             windows.front().size(), bos ? " after a BOS" : "", kernels->name);
  return Ok{};
}

}  // namespace

void add_eval(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<EvalFlags>();
  CLI::App* command = app.add_subcommand("eval", "the perplexity of a text");
  command->add_option("-m,--model", flags->model, kModelHelp)->required()->type_name("MODEL");
  command->add_option("-f,--file", flags->text, "the text; - is stdin")
      ->type_name("TEXT")
      ->capture_default_str();
  command->add_option("--window", flags->window_tokens, "tokens of a window")
      ->check(CLI::Range(2u, 1u << 20))
      ->capture_default_str();
  command->add_option("--windows", flags->windows, "at most this many windows; 0: all")
      ->capture_default_str();
  command
      ->add_option("--threads", flags->threads,
                   "compute threads (default: the cores and CPU quota there are)")
      ->check(CLI::Range(1u, 1024u));
  command->callback([flags, exit_code] {
    if (const Status status = eval(*flags); !status) {
      log::error("{}", status.error().message);
      *exit_code = EXIT_FAILURE;
    }
  });
}

}  // namespace pacer::cli
