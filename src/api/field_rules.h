// What becomes of request fields that no endpoint reads: refused by name, accepted because they ask
// for nothing, or unknown.
//
// Silently ignoring a field that changes the answer is a lie to the client, so every known field is
// in one table with the values that change nothing. A field that gets implemented leaves the table.
// A name that is in no table is accepted, and logged once.
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "api/json_fields.h"

namespace pacer::api {

// Logs each unknown name once; never a value. Shared by all I/O threads.
class FieldWarnings {
 public:
  void warn(std::string_view name);
  size_t count() const;

 private:
  static constexpr size_t kNamesMax = 256;  // clients choose the names: remember a bounded number

  mutable std::mutex mutex_;
  std::set<std::string, std::less<>> names_;
};

// Last of a parser's reads: fails fields by the table; warns of what is then still unread.
void check_other_fields(Fields& fields, FieldWarnings& warnings);

}  // namespace pacer::api
