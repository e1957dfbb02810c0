// CORS: which web pages of other origins may read our answers.
//
// Browsers ask before they send what a plain form could not (the preflight), and hide a response
// from a page unless it says that the page may see it. This protects people from pages that they
// visit, not the server: whatever is no browser may ask without. No cookies are involved, so no
// Allow-Credentials; an API key in Authorization is a field like others.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "http/message.h"

namespace pacer::http {

class Cors {
 public:
  // "https://host", "http://host:port", "null" (pages from files), or "*" for any. What is no
  // origin is an Error: a path or a slash at its end would never match.
  static Result<Cors> make(const std::vector<std::string>& allowed_origins);

  // What every response to a request of that Origin carries. nullptr: it has none.
  void add_fields(const std::string* origin, Headers& to) const;

  // Answered here, before any gate: browsers send no key with it.
  bool is_preflight(const RequestHead& head) const;
  Response preflight(const RequestHead& head) const;  // without add_fields()

 private:
  bool allows(const std::string& origin) const;

  bool any_ = false;
  std::vector<std::string> origins_;
};

}  // namespace pacer::http
