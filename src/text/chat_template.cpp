// The engine that runs templates is in rust/text_ffi; this file hands it the model's control tokens
// and turns its answers into ours. What templates do that needs care - guards, limits - is told
// there (guard.rs, template.rs).

#include "text/chat_template.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "text/special_tokens.h"  // without
#include "text_ffi.h"

namespace pacer::text {
namespace {

// For a file without a template: the format that most small models learn.
constexpr std::string_view kChatMl =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

// The limit that compile() has for any template (rust/text_ffi/src/template.rs), known here so that
// no more of a file is read.
constexpr size_t kFileBytesMax = 128 << 10;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

pacer_text_view view(std::string_view text) {
  return {text.data(), text.size()};
}

// Frees what the Rust side gave.
struct Output {
  pacer_text_output raw{};
  Output() = default;
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() { pacer_text_output_free(&raw); }

  std::string text() const { return {raw.text, raw.text_size}; }
};

Code code_of(int32_t status) {
  switch (status) {
    case PACER_TEXT_SYNTAX:
      return Code::kBadFile;
    case PACER_TEXT_RAISED:
    case PACER_TEXT_RENDER:
    case PACER_TEXT_BAD_INPUT:
      return Code::kInvalidArgument;
    case PACER_TEXT_LIMIT:
      return Code::kTooLarge;
    default:
      return Code::kInternal;
  }
}

Error error_of(const Output& output) {
  return Error{code_of(output.raw.status), output.text(), {}};
}

// U+FDD0..U+FDEF: three bytes.
std::string utf8_of_guard(uint32_t code_point) {
  return {static_cast<char>(0xE0 | (code_point >> 12)),
          static_cast<char>(0x80 | ((code_point >> 6) & 0x3F)),
          static_cast<char>(0x80 | (code_point & 0x3F))};
}

// Whether `text` has `word`, and no longer name that it is a part of.
bool has_word(std::string_view text, std::string_view word) {
  const auto goes_on = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  for (size_t at = 0; (at = text.find(word, at)) != std::string_view::npos; ++at) {
    const size_t end = at + word.size();
    if ((at == 0 || !goes_on(text[at - 1])) && (end == text.size() || !goes_on(text[end]))) {
      return true;
    }
  }
  return false;
}

struct Deleter {
  void operator()(pacer_chat_template* compiled) const { pacer_chat_template_free(compiled); }
};

}  // namespace

std::string RenderedChat::plain_text() const {
  return without(text, guard);
}

struct ChatTemplate::Impl {
  std::string source;
  std::optional<std::string> tool_use;
  std::unique_ptr<pacer_chat_template, Deleter> compiled;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;

const std::string& ChatTemplate::source() const {
  return impl_->source;
}

bool ChatTemplate::names(std::string_view variable, bool with_tools) const {
  return has_word(with_tools && impl_->tool_use ? *impl_->tool_use : impl_->source, variable);
}

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::from_gguf(const gguf::File& file,
                                                              const Tokenizer& tokenizer) {
  ASSIGN_OR_RETURN(const auto source, file.find_string("tokenizer.chat_template"));
  ASSIGN_OR_RETURN(const auto tool_use, file.find_string("tokenizer.chat_template.tool_use"));
  auto compiled = compile(std::string(source.value_or(kChatMl)), tokenizer, tool_use);
  if (!compiled) {
    return error(compiled.error().code, "{}: tokenizer.chat_template: {}", file.path(),
                 compiled.error().message);
  }
  return compiled;
}

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::from_file(const std::string& path,
                                                              const Tokenizer& tokenizer) {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  std::string source(kFileBytesMax + 1, '\0');  // the byte more tells that there is more
  if (file != nullptr) source.resize(std::fread(source.data(), 1, source.size(), file.get()));
  if (file == nullptr || std::ferror(file.get()) != 0) {
    return error(Code::kIo, "cannot read the chat template '{}': {}", path, std::strerror(errno));
  }
  if (source.size() > kFileBytesMax) {
    return error(Code::kBadFile, "{}: the chat template has more bytes than the limit of {}", path,
                 kFileBytesMax);
  }
  auto compiled = compile(std::move(source), tokenizer);
  if (!compiled) {
    return error(compiled.error().code, "{}: {}", path, compiled.error().message);
  }
  return compiled;
}

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::compile(
    std::string source, const Tokenizer& tokenizer, std::optional<std::string_view> tool_use) {
  std::vector<pacer_text_view> control_texts;
  for (TokenId id = 0; id < tokenizer.vocabulary_size(); ++id) {
    if (tokenizer.is_special(id)) control_texts.push_back(view(tokenizer.token_bytes(id)));
  }
  pacer_text_view bos{}, eos{};
  if (tokenizer.bos()) bos = view(tokenizer.token_bytes(*tokenizer.bos()));
  if (tokenizer.eos()) eos = view(tokenizer.token_bytes(*tokenizer.eos()));
  const pacer_text_view tool_use_view = view(tool_use.value_or(""));
  const pacer_chat_template_options options = {
      .source = view(source),
      .tool_use_source = tool_use ? &tool_use_view : nullptr,
      .control_texts = control_texts.data(),
      .control_text_count = control_texts.size(),
      .bos = tokenizer.bos() ? &bos : nullptr,
      .eos = tokenizer.eos() ? &eos : nullptr,
  };
  auto impl = std::make_unique<Impl>();
  Output output;
  impl->compiled.reset(pacer_chat_template_compile(&options, &output.raw));
  if (!impl->compiled) return error_of(output);
  impl->source = std::move(source);
  if (tool_use) impl->tool_use = std::string(*tool_use);
  return std::unique_ptr<ChatTemplate>(new ChatTemplate(std::move(impl)));
}

Result<RenderedChat> ChatTemplate::render(std::string_view context_json,
                                          std::chrono::system_clock::time_point now) const {
  const int64_t unix_seconds =
      std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count();
  Output output;
  pacer_chat_template_render(impl_->compiled.get(), view(context_json), unix_seconds, &output.raw);
  if (output.raw.status != PACER_TEXT_OK) return error_of(output);
  RenderedChat chat{.text = output.text(), .guard = {}};
  if (output.raw.guard != 0) chat.guard = utf8_of_guard(output.raw.guard);
  return chat;
}

std::vector<TokenId> encode_chat(const Tokenizer& tokenizer, const RenderedChat& chat) {
  // EOS is not added even where the model wants one: the answer is still to come.
  std::vector<TokenId> ids = tokenizer.encode(
      chat.text, {.add_special = false, .parse_special = true, .guard = chat.guard});
  tokenizer.put_one_bos(ids);
  return ids;
}

}  // namespace pacer::text
