#include "cli/model_flags.h"

#include "cli/byte_size.h"
#include "cli/model_source.h"

namespace pacer::cli {

void add_chat_template_flag(CLI::App& command, std::string* path) {
  command
      .add_option("--chat-template", *path,
                  "a Jinja file to use instead of the model's own chat template")
      ->type_name("FILE");
}

void ModelFlags::add_to(CLI::App& command) {
  command.add_option("-m,--model", options.source, kModelHelp)->type_name("MODEL");
  command
      .add_option(
          "--max-model-len", options.max_model_len,
          "tokens of one request, prompt and answer (default: what the model was trained for)")
      ->check(CLI::Range(2u, 1u << 24));
  command
      .add_option("--kv-cache-memory", kv_cache_memory,
                  "hard budget of the KV cache, such as 2GiB (default: 2GiB, at most half of what "
                  "the rest leaves of the memory)")
      ->type_name("SIZE");
  command
      .add_option("--max-memory", max_memory,
                  "what everything together may take, checked before it is allocated (default: "
                  "what the machine and its cgroups have free)")
      ->type_name("SIZE");
  command
      .add_option("--threads", options.threads,
                  "compute threads (default: the cores and CPU quota there are)")
      ->check(CLI::Range(1u, 1024u));
  add_chat_template_flag(command, &options.chat_template_path);
}

Result<ModelOptions> ModelFlags::into_options() const {
  ModelOptions result = options;
  if (!kv_cache_memory.empty()) {
    ASSIGN_OR_RETURN(result.kv_cache_bytes, parse_byte_size(kv_cache_memory));
  }
  if (!max_memory.empty()) {
    ASSIGN_OR_RETURN(result.max_memory_bytes, parse_byte_size(max_memory));
  }
  if (options.source.empty()) {
    return error(Code::kInvalidArgument, "no model is given: -m MODEL says which");
  }
  return result;
}

}  // namespace pacer::cli
