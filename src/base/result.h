// Errors as values: Error, Status and Result<T>.
//
// For bad input and for what the machine refuses: one clear sentence with the value, the limit and
// the name. A bug of ours is not an Error; it is a CHECK (base/check.h). Our own code does not
// throw.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace pacer {

enum class Code {
  kInvalidArgument,  // the caller asked for something that makes no sense: HTTP 400
  kNotFound,         // the named thing does not exist: HTTP 404
  kTooLarge,         // over a stated limit: HTTP 413
  kUnsupported,      // well-formed, but not something this program does
  kBadFile,          // a file's contents are broken
  kIo,               // the machine failed or refused: open, read, bind, map
  kExhausted,        // no room now (queue, memory): HTTP 429, may work later
  kUnavailable,      // shutting down or not ready: HTTP 503
  kInternal,         // a step failed; details for the log: HTTP 500
};

struct [[nodiscard]] Error {
  Code code = Code::kInternal;
  std::string message;
  std::string param;  // the request field at fault, when there is one
};

template <class... Args>
Error error(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return Error{code, fmt::format(format, std::forward<Args>(args)...), {}};
}

// Either a value or an Error. `if (!result) return result.error();` then `*result`.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    CHECK(ok(), "value() of an error: {}", error().message);
    return std::get<0>(state_);
  }
  const T& value() const& {
    CHECK(ok(), "value() of an error: {}", error().message);
    return std::get<0>(state_);
  }
  T&& value() && {
    CHECK(ok(), "value() of an error: {}", error().message);
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    CHECK(state_.index() == 1, "error() of a value");
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

struct Ok {};
using Status = Result<Ok>;

// Leaves the function with the error of a Status or Result, if it has one.
#define TRY(expression)                                                         \
  do {                                                                          \
    if (auto try_result = (expression); !try_result) return try_result.error(); \
  } while (false)

#define PACER_CONCAT_INNER(a, b) a##b
#define PACER_CONCAT(a, b) PACER_CONCAT_INNER(a, b)

// ASSIGN_OR_RETURN(auto file, gguf::File::open(path)): the value, or leave with the error.
#define ASSIGN_OR_RETURN(target, expression) \
  ASSIGN_OR_RETURN_IMPL(target, expression, PACER_CONCAT(assign_result_, __LINE__))
#define ASSIGN_OR_RETURN_IMPL(target, expression, result) \
  auto result = (expression);                             \
  if (!result) return result.error();                     \
  target = *std::move(result)

}  // namespace pacer
