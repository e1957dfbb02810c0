// pacer tokenize: the token ids of a text, as the model would get them. Needs the tokenizer of a
// GGUF file and nothing else of it: vocabulary-only files of any architecture do.
//
// Ids go to stdout, separated by spaces; with --jsonl one JSON array for each line of input.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/input_file.h"
#include "cli/model_source.h"
#include "gguf/file.h"
#include "text/tokenizer.h"

namespace pacer::cli {

namespace {

using Json = nlohmann::json;

struct TokenizeFlags {
  std::string model;
  std::string text = "-";
  bool no_special = false;
  bool jsonl = false;
};

Status print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return Ok{};
  return error(Code::kIo, "cannot write the ids: {}", std::strerror(errno));
}

// Each line is one JSON string, each answer one JSON array. Stops at the first line that is not.
Status tokenize_lines(std::string_view text, const text::Tokenizer& tokenizer,
                      const text::EncodeOptions& options, const std::string& name) {
  for (size_t line_number = 1; !text.empty(); ++line_number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_string()) {
      return error(Code::kInvalidArgument, "{}: line {} is no JSON string", name, line_number);
    }
    const auto ids = tokenizer.encode(json.get_ref<const std::string&>(), options);
    TRY(print(fmt::format("[{}]\n", fmt::join(ids, ","))));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return Ok{};
}

Status tokenize(const TokenizeFlags& flags) {
  ASSIGN_OR_RETURN(const std::string path, resolve_model(flags.model));
  ASSIGN_OR_RETURN(const gguf::File file, gguf::File::open(path));
  ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::from_gguf(file));
  ASSIGN_OR_RETURN(const std::string text, read_input(flags.text));
  const std::string name = flags.text == "-" ? "standard input" : flags.text;
  const text::EncodeOptions options = {.add_special = !flags.no_special,
                                       .parse_special = !flags.no_special};
  if (flags.jsonl) {
    TRY(tokenize_lines(text, *tokenizer, options, name));
  } else {
    TRY(print(fmt::format("{}\n", fmt::join(tokenizer->encode(text, options), " "))));
  }
  if (std::fflush(stdout) == 0) return Ok{};
  return error(Code::kIo, "cannot write the ids: {}", std::strerror(errno));
}

}  // namespace

void add_tokenize(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<TokenizeFlags>();
  CLI::App* command = app.add_subcommand("tokenize", "print the token ids of a text");
  command->add_option("-m,--model", flags->model, kModelHelp)->required()->type_name("MODEL");
  command
      ->add_option("-f,--file", flags->text,
                   "the text, taken byte for byte (default: standard input)")
      ->type_name("FILE");
  command->add_flag("--no-special", flags->no_special,
                    "no BOS or EOS token, and the text of a control token is plain text");
  command->add_flag("--jsonl", flags->jsonl,
                    "one JSON string a line in, one JSON array of ids a line out");
  command->callback([flags, exit_code] {
    if (const Status status = tokenize(*flags); !status) {
      log::error("{}", status.error().message);
      *exit_code = EXIT_FAILURE;
    }
  });
}

}  // namespace pacer::cli
