// pacer template: what a chat template makes of messages, byte for byte.
//
// For whoever writes or doubts a template: stdout has the rendered text and nothing else, so that
// it can be compared. Messages reach the template as they are written, as Jinja2 would get them.
// With --request the file is the body of a chat request, and the server's own rules apply, by the
// server's own code: developer is system, parts are joined, what it refuses is refused.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/field_rules.h"
#include "api/generation_options.h"
#include "api/json_body.h"
#include "api/messages.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/input_file.h"
#include "cli/loaded_model.h"
#include "cli/model_flags.h"
#include "cli/model_source.h"

namespace pacer::cli {

namespace {

using Json = nlohmann::ordered_json;  // templates print keys in the order in which they are given

// The parser and the template engine recurse once a level; the engine reads no deeper itself.
constexpr int kDepthMax = 120;

struct TemplateFlags {
  std::string model;
  std::string chat_template;
  std::string messages;
  bool is_request = false;
};

// "[json.exception.parse_error.101] parse error at line 1, ...; last read: '...'" without the
// library's name, and without what was read: it may be a whole message, and no UTF-8.
std::string detail_of(const nlohmann::json::exception& exception) {
  std::string what = exception.what();
  if (const size_t end = what.find("] "); end != std::string::npos) what.erase(0, end + 2);
  return what.substr(0, what.find("; last read"));
}

// The variables of the template: an object with "messages" in it.
Result<Json> read_variables(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, read_input(path));
  Json variables;
  bool too_deep = false;
  const auto check_depth = [&](int depth, Json::parse_event_t, Json&) {
    too_deep |= depth > kDepthMax;
    return !too_deep;
  };
  try {
    variables = Json::parse(text, check_depth);
  } catch (const nlohmann::json::exception& exception) {
    return error(Code::kInvalidArgument, "{}: {}", path, detail_of(exception));
  }
  if (too_deep) {
    return error(Code::kInvalidArgument, "{}: nested deeper than {} levels", path, kDepthMax);
  }
  if (variables.is_array()) variables = Json{{"messages", std::move(variables)}};
  if (!variables.is_object() || !variables.contains("messages") ||
      !variables["messages"].is_array()) {
    return error(Code::kInvalidArgument,
                 "{}: must be a list of messages, or an object with \"messages\"", path);
  }
  if (!variables.contains("add_generation_prompt")) variables["add_generation_prompt"] = true;
  return variables;
}

// What POST /v1/chat/completions would give to the template for the body in the file.
Result<Json> read_request(const std::string& path, const text::ChatTemplate& chat_template) {
  ASSIGN_OR_RETURN(const std::string text, read_input(path));
  const Result<Json> body = api::parse_json_object(text);
  if (!body) return error(body.error().code, "{}: {}", path, body.error().message);
  api::Fields fields(*body);
  api::FieldWarnings warnings;
  api::RandomSource random;
  fields.find("model");  // any: only a server has a name for its model
  api::read_generation_options(fields, api::AnswerKind::kChat, random);
  Json variables = api::read_chat(fields, chat_template, warnings);
  api::check_other_fields(fields, warnings);
  if (!fields.ok()) return error(fields.error().code, "{}: {}", path, fields.error().message);
  return variables;
}

Status print_rendered(const TemplateFlags& flags) {
  Json variables;
  if (!flags.is_request) {
    ASSIGN_OR_RETURN(variables, read_variables(flags.messages));
  }
  ASSIGN_OR_RETURN(const std::string path, resolve_model(flags.model));
  ASSIGN_OR_RETURN(const gguf::File file, gguf::File::open(path));
  ASSIGN_OR_RETURN(const auto tokenizer, text::Tokenizer::from_gguf(file));
  ASSIGN_OR_RETURN(const auto chat_template,
                   load_chat_template(flags.chat_template, file, *tokenizer));
  if (flags.is_request) {
    ASSIGN_OR_RETURN(variables, read_request(flags.messages, *chat_template));
  }
  ASSIGN_OR_RETURN(const text::RenderedChat chat, chat_template->render(variables.dump()));
  const std::string plain = chat.plain_text();
  if (std::fwrite(plain.data(), 1, plain.size(), stdout) != plain.size() ||
      std::fflush(stdout) != 0) {
    return error(Code::kIo, "cannot write the rendered chat to stdout");
  }
  return Ok{};
}

}  // namespace

void add_template(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<TemplateFlags>();
  CLI::App* command = app.add_subcommand("template", "what the model sees of a chat");
  command->footer(
      "Prints the text that the chat template makes of the messages, and nothing else: no newline\n"
      "is added. A beginning-of-text token is printed where the template writes its text; where a\n"
      "model wants one and the template writes none, it is added as a token and not seen here.\n"
      "Messages reach the template as they are written; the server changes a few things before\n"
      "(developer becomes system, parts are joined, null content is \"\", arguments of calls\n"
      "become objects): --request shows a chat request as the server's model sees it.");
  command->add_option("-m,--model", flags->model, kModelHelp)->required()->type_name("MODEL");
  add_chat_template_flag(*command, &flags->chat_template);
  command
      ->add_option(
          "messages", flags->messages,
          "a JSON list of messages, or an object with \"messages\" whose other keys become\n"
          "variables of the template (tools, documents, ...; add_generation_prompt is true\n"
          "unless given); - is stdin")
      ->required()
      ->type_name("MESSAGES.json");
  command->add_flag("--request", flags->is_request,
                    "MESSAGES.json is the body of a POST /v1/chat/completions: the server's own\n"
                    "rules apply, and what it refuses is refused");
  command->callback([flags, exit_code] {
    if (const Status status = print_rendered(*flags); !status) {
      log::error("{}", status.error().message);
      *exit_code = EXIT_FAILURE;
    }
  });
}

}  // namespace pacer::cli
