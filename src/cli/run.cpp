// pacer run: one prompt, answered on the terminal.
//
// The answer goes to stdout as it grows, everything else to stderr, so that it can be piped.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/config_flags.h"
#include "cli/model_flags.h"
#include "sys/thread_pool.h"

namespace pacer::cli {

namespace {

struct RunFlags {
  ModelFlags model;
  ConfigFlags config;
  std::string prompt;
  uint32_t max_tokens = 128;
  bool chat = false;
  bool ignore_eos = false;
  SamplingParams sampling{.temperature = 0};
};

class PrintSink final : public engine::OutputSink {
 public:
  explicit PrintSink(const Clock& clock) : clock_(clock) {}
  void on_output(engine::OutputEvent event) override {
    if (!first_ && !event.tokens.empty()) first_ = clock_.now();
    if (!event.tokens.empty()) last_ = clock_.now();
    std::fwrite(event.text.data(), 1, event.text.size(), stdout);
    std::fflush(stdout);
    if (event.finish) finish_ = std::move(event.finish);
  }

  const std::optional<engine::Finish>& finish() const { return finish_; }
  TimePoint first() const { return first_.value_or(last_); }
  TimePoint last() const { return last_; }

 private:
  const Clock& clock_;
  std::optional<TimePoint> first_;
  TimePoint last_{};
  std::optional<engine::Finish> finish_;
};

Result<std::vector<TokenId>> encode_prompt(const RunFlags& flags, const LoadedModel& loaded) {
  if (!flags.chat) return loaded.tokenizer->encode(flags.prompt);
  const nlohmann::json context = {{"messages", {{{"role", "user"}, {"content", flags.prompt}}}},
                                  {"add_generation_prompt", true}};
  // An argument of the command line may be any bytes; in JSON they must be text.
  ASSIGN_OR_RETURN(const text::RenderedChat chat,
                   loaded.chat_template->render(
                       context.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  return text::encode_chat(*loaded.tokenizer, chat);
}

void print_figures(const engine::Finish& finish, const PrintSink& sink, TimePoint start) {
  const double decode = seconds(sink.last() - sink.first());
  log::info(
      "{} prompt tokens, first token after {:.3f} s; {} tokens ({}), {:.1f} tokens/s of this one "
      "stream",
      finish.prompt_tokens, seconds(sink.first() - start), finish.output_tokens,
      engine::to_string(finish.reason),
      finish.output_tokens > 1 ? (finish.output_tokens - 1) / decode : 0.0);
}

Status run(const RunFlags& flags) {
  ASSIGN_OR_RETURN(ModelOptions options, flags.model.into_options());
  options.max_num_seqs = 1;
  ASSIGN_OR_RETURN(const auto loaded, load_model(options));
  ASSIGN_OR_RETURN(std::vector<TokenId> prompt, encode_prompt(flags, *loaded));
  if (prompt.empty()) return error(Code::kInvalidArgument, "the prompt is empty");

  sys::set_denormals_to_zero();
  auto sink = std::make_shared<PrintSink>(loaded->clock);
  const TimePoint start = loaded->clock.now();
  TRY(loaded->engine->submit({.name = "run",
                              .prompt = std::move(prompt),
                              .max_tokens = flags.max_tokens,
                              .sampling = flags.sampling,
                              .ignore_eos = flags.ignore_eos,
                              .stop = {},
                              .arrived = start},
                             sink));
  while (loaded->engine->step()) {
  }
  std::fputc('\n', stdout);
  if (sink->finish()->error) return *sink->finish()->error;
  print_figures(*sink->finish(), *sink, start);
  return Ok{};
}

Status configure_and_run(const RunFlags& flags, CLI::App& command) {
  ASSIGN_OR_RETURN(const OptionLayers layers, flags.config.apply(command));
  if (flags.config.print) return Ok{};
  log::init(
      {.level = layers.value("log-level"),
       .format = layers.value("log-format") == "json" ? log::Format::kJson : log::Format::kText});
  layers.warn_of_unknown_variables();
  return run(flags);
}

}  // namespace

void add_run(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = app.add_subcommand("run", "answer one prompt on the terminal");
  flags->model.add_to(*command);
  command
      ->add_option("-p,--prompt", flags->prompt,
                   "the text to go on from, or the message with --chat")
      ->required()
      ->configurable(false)
      ->type_name("TEXT");
  command->add_option("-n,--max-tokens", flags->max_tokens, "tokens of the answer at most")
      ->check(CLI::Range(1u, 1u << 24))
      ->capture_default_str();
  command->add_flag("--chat", flags->chat, "put the prompt into the model's chat template");
  command->add_flag("--ignore-eos", flags->ignore_eos,
                    "go on to --max-tokens whatever the model says");
  command
      ->add_option("--temperature", flags->sampling.temperature, "0: always the most likely token")
      ->check(CLI::Range(0.0f, 2.0f))
      ->capture_default_str();
  command->add_option("--top-k", flags->sampling.top_k, "only the k most likely tokens; 0: all");
  command->add_option("--top-p", flags->sampling.top_p, "only the most likely tokens of this mass")
      ->check(CLI::Range(1e-6f, 1.0f));
  command
      ->add_option("--min-p", flags->sampling.min_p,
                   "only tokens this likely, relative to the most likely")
      ->check(CLI::Range(0.0f, 1.0f));
  command->add_option("--seed", flags->sampling.seed, "the same seed draws the same tokens")
      ->capture_default_str();
  flags->config.add_to(*command);
  command->callback([flags, command, exit_code] {
    if (const Status status = configure_and_run(*flags, *command); !status) {
      log::error("{}", status.error().message);
      *exit_code = EXIT_FAILURE;
    }
  });
}

}  // namespace pacer::cli
