#include "api/open_chat.h"

#include <algorithm>
#include <string>
#include <utility>

namespace pacer::api {

namespace {

constexpr std::string_view kName = "continue_final_message";
constexpr std::string_view kSpaces = " \t\n\v\f\r";

// Nothing of the chat contains it. It ends with a space, which a template that trims takes off.
// One pass, however many marks a chat is made to contain: one more '1' than the most that follow.
std::string unique_mark(std::string_view chat_json) {
  constexpr std::string_view kMark = "END-OF-OPEN-MESSAGE-";
  size_t most = 0;
  for (size_t at = chat_json.find(kMark); at != std::string_view::npos;) {
    const size_t ones = at + kMark.size();
    const size_t end = std::min(chat_json.find_first_not_of('1', ones), chat_json.size());
    most = std::max(most, end - ones);
    at = chat_json.find(kMark, end);
  }
  return std::string(kMark) + std::string(most + 1, '1') + ' ';
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

}  // namespace

bool read_continue_final_message(Fields& fields, const Json& chat) {
  const bool wanted = fields.boolean(kName, false);
  if (!wanted || !fields.ok()) return false;
  if (chat["add_generation_prompt"] == true) {
    fields.fail(Error{Code::kInvalidArgument,
                      "'continue_final_message' needs 'add_generation_prompt' to be false: the "
                      "model cannot go on with a message and begin one",
                      std::string(kName)});
  }
  return fields.ok();
}

Result<text::RenderedChat> render_open_chat(Json chat, const text::ChatTemplate& chat_template) {
  std::string& content = chat["messages"].back()["content"].get_ref<std::string&>();
  const std::string message(trimmed(content));
  const std::string mark = unique_mark(chat.dump());
  content += mark;
  ASSIGN_OR_RETURN(text::RenderedChat rendered, chat_template.render(chat.dump()));

  const std::string_view word = trimmed(mark);
  const size_t end = rendered.text.rfind(word);
  const bool kept_whole =
      end != std::string::npos && rendered.text.compare(end, mark.size(), mark) == 0;
  rendered.text.resize(end == std::string::npos ? 0 : end);
  if (!kept_whole) rendered.text.resize(rendered.text.find_last_not_of(kSpaces) + 1);
  if (end == std::string::npos || rendered.plain_text().find(message) == std::string::npos) {
    return Error{Code::kInvalidArgument,
                 "'continue_final_message' is not possible: the model's chat template does not "
                 "print the final message as it is",
                 std::string(kName)};
  }
  return rendered;
}

}  // namespace pacer::api
