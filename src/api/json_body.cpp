#include "api/json_body.h"

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/json_format.h"

namespace pacer::api {

namespace {

// Builds the value while it keeps the way to where it stands, for error messages and for the depth.
class BodyReader final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return put_scalar(nullptr); }
  bool boolean(bool value) override { return put_scalar(value); }
  bool number_integer(number_integer_t value) override { return put_scalar(value); }
  bool number_unsigned(number_unsigned_t value) override { return put_scalar(value); }
  bool number_float(number_float_t value, const string_t&) override { return put_scalar(value); }
  bool string(string_t& value) override { return put_scalar(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // not in JSON text

  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool key(string_t& name) override {
    frames_.back().key = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool parse_error(size_t, const std::string&, const Json::exception& exception) override {
    fail(detail_of(exception.what()));
    return false;
  }

  Json& root() { return root_; }
  Error take_error() { return std::move(error_); }

 private:
  struct Frame {
    Json* container;  // stays where it is: its parent does not grow while it is open
    std::string key;  // of the member whose value comes next; empty between members
    // Where each key is, once there are so many that looking through them would take long.
    std::unordered_map<std::string, ptrdiff_t> places{};
  };
  static constexpr size_t kFewMembers = 16;

  // A scalar, whole at once.
  bool put_scalar(Json value) {
    if (put(std::move(value)) == nullptr) return false;
    if (!frames_.empty()) frames_.back().key.clear();
    return true;
  }

  // Nothing: there are too many.
  Json* put(Json value) {
    if (++values_ > kJsonValuesMax) {
      fail(fmt::format("more than {} values", kJsonValuesMax));
      return nullptr;
    }
    if (frames_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Frame& frame = frames_.back();
    if (frame.container->is_array()) {
      frame.container->push_back(std::move(value));
      return &frame.container->back();
    }
    Json* member = find_or_add_member(frame);
    if (member != nullptr) *member = std::move(value);
    return member;
  }

  // Nothing: there are too many.
  Json* find_or_add_member(Frame& frame) {
    auto& members = frame.container->get_ref<Json::object_t&>();
    if (members.size() < kFewMembers) return &(*frame.container)[frame.key];
    if (frame.places.empty()) {
      for (const auto& [key, value] : members) frame.places.emplace(key, frame.places.size());
    }
    const auto [place, added] = frame.places.try_emplace(frame.key, std::ssize(members));
    if (!added) return &std::next(members.begin(), place->second)->second;
    if (members.size() == kJsonMembersMax) {
      fail(fmt::format("an object with more than {} members", kJsonMembersMax));
      return nullptr;
    }
    members.emplace_back(frame.key, Json());
    return &members.back().second;
  }

  bool open(Json container) {
    if (frames_.size() == kJsonDepthMax) {
      fail(fmt::format("nested deeper than {} levels", kJsonDepthMax));
      return false;
    }
    Json* opened = put(std::move(container));
    if (opened == nullptr) return false;
    frames_.push_back({.container = opened, .key = {}});
    return true;
  }

  bool close() {
    frames_.pop_back();
    if (!frames_.empty()) frames_.back().key.clear();
    return true;
  }

  std::string path() const {
    std::string path;
    for (size_t i = 0; i < frames_.size(); ++i) {
      const Frame& frame = frames_[i];
      if (frame.container->is_array()) {
        // An open container is in its list already; a value that is being read is not.
        const bool is_last = i + 1 == frames_.size();
        path += fmt::format("[{}]", frame.container->size() - (is_last ? 0 : 1));
      } else if (!frame.key.empty()) {
        path += path.empty() ? frame.key : "." + frame.key;
      }
    }
    return shortened(path, 200);
  }

  void fail(const std::string& detail) {
    const std::string where = path();
    error_ = where.empty()
                 ? error(Code::kInvalidArgument, "the body is not a valid JSON request: {}", detail)
                 : error(Code::kInvalidArgument, "the body is not a valid JSON request at '{}': {}",
                         where, detail);
    error_.param = where;
  }

  // "[json.exception.parse_error.101] parse error at line 1, column 9: syntax error ...; last read:
  // '...'" without the library's name, and without what was read: it may be a whole prompt.
  static std::string detail_of(std::string what) {
    if (const size_t end = what.find("] "); what.starts_with('[') && end != std::string::npos) {
      what.erase(0, end + 2);
    }
    if (const size_t read = what.find("; last read"); read != std::string::npos) what.resize(read);
    return shortened(what, 300);
  }

  size_t values_ = 0;
  Json root_;
  std::vector<Frame> frames_;
  Error error_;
};

}  // namespace

Result<Json> parse_json_object(std::string_view body) {
  if (body.empty())
    return error(Code::kInvalidArgument, "the body is empty; it must be a JSON object");
  // The library takes one for the end, and whoever reads the body before us may not.
  if (body.find('\0') != std::string_view::npos) {
    return error(Code::kInvalidArgument, "the body has a NUL byte, which JSON never has");
  }
  BodyReader reader;
  if (!Json::sax_parse(body, &reader)) return reader.take_error();
  if (!reader.root().is_object()) {
    return error(Code::kInvalidArgument, "the body is a JSON {}; it must be an object",
                 reader.root().type_name());
  }
  return std::move(reader.root());
}

}  // namespace pacer::api
