// A chat whose final message the model goes on with, instead of beginning one of its own:
// "continue_final_message", with the meaning that transformers and vLLM give it.
//
// Templates have no notion of an unfinished message, so the rendered text is cut behind the final
// message's content. Where that is, a mark at the content's end tells.
#pragma once

#include "api/json_fields.h"
#include "text/chat_template.h"

namespace pacer::api {

// The field; errors stick to `fields`. After read_chat(), which gave `chat`.
bool read_continue_final_message(Fields& fields, const Json& chat);

// Renders what read_chat() gave and cuts. Where the template trims the message, white space at its
// end is gone, as the model never sees any there. An Error where the message is not in the text.
Result<text::RenderedChat> render_open_chat(Json chat, const text::ChatTemplate& chat_template);

}  // namespace pacer::api
