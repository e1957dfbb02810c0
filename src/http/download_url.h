// Addresses of things to download: taken apart, put together, shown.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace pacer::http {

// `link` as found on the page `base`; an Error for what is no http or https address.
Result<std::string> resolve_url(const std::string& base, const std::string& link);

// "a%20b" for "a b"; with `keep_slashes` a path stays one.
std::string percent_encode(std::string_view text, bool keep_slashes = false);

// The last segment of the path, decoded: "x.gguf" of "https://host/a/x.gguf?download=true". May be
// anything that the address says: check it before use as a name.
std::string url_file_name(const std::string& url);

// Without user, password, query and fragment, where secrets are: for messages.
std::string shown_url(const std::string& url);

// "https://host:port" in lower case: where a credential may go.
std::string url_origin(const std::string& url);

}  // namespace pacer::http
