// Keys and typed values. Integers are widened, so the rest of the program sees one kind of each.
//
// A few keys have a type that the specification fixes and that readers are known to trust blindly
// (a scores array of bytes read as floats runs off its end). Those are checked here, where the
// width in the file is still known.
#include "gguf/parse_metadata.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace pacer::gguf {
namespace {

std::string type_name(uint32_t type) {
  static constexpr const char* kNames[] = {"UINT8",  "INT8",    "UINT16", "INT16",  "UINT32",
                                           "INT32",  "FLOAT32", "BOOL",   "STRING", "ARRAY",
                                           "UINT64", "INT64",   "FLOAT64"};
  if (type < std::size(kNames)) return kNames[type];
  return fmt::format("unknown type {}", type);
}

std::string type_name(ValueType type) {
  return type_name(static_cast<uint32_t>(type));
}

bool is_integer(ValueType type) {
  return type != ValueType::kFloat32 && type != ValueType::kFloat64 && type != ValueType::kBool &&
         type != ValueType::kString && type != ValueType::kArray;
}

// Bytes that one element takes at least: bounds an array before memory is reserved for it.
uint64_t element_bytes_min(ValueType type) {
  switch (type) {
    case ValueType::kUint8:
    case ValueType::kInt8:
    case ValueType::kBool:
      return 1;
    case ValueType::kUint16:
    case ValueType::kInt16:
      return 2;
    case ValueType::kUint32:
    case ValueType::kInt32:
    case ValueType::kFloat32:
      return 4;
    case ValueType::kString:  // its length
    case ValueType::kArray:
    case ValueType::kUint64:
    case ValueType::kInt64:
    case ValueType::kFloat64:
      return 8;
  }
  return 8;
}

Result<bool> read_bool(Cursor& cursor, std::string_view what) {
  ASSIGN_OR_RETURN(const uint8_t byte, cursor.read<uint8_t>(what));
  if (byte > 1) {
    return error(Code::kBadFile, "{} has the byte {} as a BOOL; it must be 0 or 1", what, byte);
  }
  return byte == 1;
}

// One read of a number of the file's width, widened.
template <class InFile, class Widened>
Result<Widened> read_widened(Cursor& cursor, std::string_view what) {
  ASSIGN_OR_RETURN(const InFile value, cursor.read<InFile>(what));
  return static_cast<Widened>(value);
}

template <class T>
using ReadFn = Result<T> (*)(Cursor&, std::string_view);

template <class T>
Result<Value> read_scalar(Cursor& cursor, std::string_view what, ReadFn<T> read) {
  ASSIGN_OR_RETURN(T value, read(cursor, what));
  return Value(std::in_place_type<T>, value);
}

template <class T>
Result<Value> read_elements(Cursor& cursor, std::string_view what, uint64_t count, ReadFn<T> read) {
  std::vector<T> elements;
  elements.reserve(count);  // bounded by the caller
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(T value, read(cursor, what));
    elements.push_back(value);
  }
  return Value(std::in_place_type<std::vector<T>>, std::move(elements));
}

Result<std::string_view> read_text(Cursor& cursor, std::string_view what) {
  return cursor.read_string(kStringBytesMax, what);
}

// Calls use(read function) with the reader of `type`: the one place that maps types to C++.
template <class Use>
Result<Value> with_reader(ValueType type, Use use) {
  switch (type) {
    case ValueType::kUint8:
      return use(ReadFn<uint64_t>(read_widened<uint8_t, uint64_t>));
    case ValueType::kUint16:
      return use(ReadFn<uint64_t>(read_widened<uint16_t, uint64_t>));
    case ValueType::kUint32:
      return use(ReadFn<uint64_t>(read_widened<uint32_t, uint64_t>));
    case ValueType::kUint64:
      return use(ReadFn<uint64_t>(read_widened<uint64_t, uint64_t>));
    case ValueType::kInt8:
      return use(ReadFn<int64_t>(read_widened<int8_t, int64_t>));
    case ValueType::kInt16:
      return use(ReadFn<int64_t>(read_widened<int16_t, int64_t>));
    case ValueType::kInt32:
      return use(ReadFn<int64_t>(read_widened<int32_t, int64_t>));
    case ValueType::kInt64:
      return use(ReadFn<int64_t>(read_widened<int64_t, int64_t>));
    case ValueType::kFloat32:
      return use(ReadFn<double>(read_widened<float, double>));
    case ValueType::kFloat64:
      return use(ReadFn<double>(read_widened<double, double>));
    case ValueType::kBool:
      return use(ReadFn<bool>(read_bool));
    case ValueType::kString:
      return use(ReadFn<std::string_view>(read_text));
    case ValueType::kArray:
      break;  // refused before, with the name of the key
  }
  return error(Code::kBadFile, "arrays of arrays are not supported");
}

Result<ValueType> read_type(Cursor& cursor, std::string_view what) {
  ASSIGN_OR_RETURN(const uint32_t number, cursor.read<uint32_t>(what));
  if (number > static_cast<uint32_t>(ValueType::kFloat64)) {
    return error(Code::kBadFile, "{} has {}", what, type_name(number));
  }
  return static_cast<ValueType>(number);
}

// Most writers store every integer array as INT32. Readers ask for uints; give them one form.
Value prefer_unsigned(Value value) {
  const auto* ints = std::get_if<std::vector<int64_t>>(&value);
  if (ints == nullptr || std::any_of(ints->begin(), ints->end(), [](int64_t v) { return v < 0; })) {
    return value;
  }
  return Value(std::vector<uint64_t>(ints->begin(), ints->end()));
}

struct TypedValue {
  ValueType type;
  ValueType element_type;  // of an array; otherwise equal to type
  Value value;
};

class MetadataParser {
 public:
  explicit MetadataParser(Cursor& cursor) : cursor_(cursor) {}

  Status parse_pair();
  Metadata take() { return std::move(metadata_); }

 private:
  Result<TypedValue> read_value(std::string_view what);
  Result<TypedValue> read_array(std::string_view what);
  Status check_known_key(std::string_view key, const TypedValue& value);
  Status set_alignment(const TypedValue& value);

  Cursor& cursor_;
  Metadata metadata_;
  uint64_t elements_total_ = 0;  // of all arrays so far
};

Status MetadataParser::parse_pair() {
  const size_t index = metadata_.values.size();
  ASSIGN_OR_RETURN(
      const std::string_view key,
      cursor_.read_string(kKeyBytesMax, fmt::format("the name of metadata key {}", index)));
  if (key.empty()) return error(Code::kBadFile, "metadata key {} has an empty name", index);

  const std::string what = fmt::format("metadata key '{}'", shown(key));
  ASSIGN_OR_RETURN(TypedValue typed, read_value(what));
  TRY(check_known_key(key, typed));
  if (!metadata_.values.emplace(key, prefer_unsigned(std::move(typed.value))).second) {
    return error(Code::kBadFile, "{} appears twice", what);
  }
  return Ok{};
}

Result<TypedValue> MetadataParser::read_value(std::string_view what) {
  ASSIGN_OR_RETURN(const ValueType type, read_type(cursor_, what));
  if (type == ValueType::kArray) return read_array(what);
  ASSIGN_OR_RETURN(Value value,
                   with_reader(type, [&](auto read) { return read_scalar(cursor_, what, read); }));
  return TypedValue{type, type, std::move(value)};
}

Result<TypedValue> MetadataParser::read_array(std::string_view what) {
  ASSIGN_OR_RETURN(const ValueType type, read_type(cursor_, what));
  ASSIGN_OR_RETURN(const uint64_t count, cursor_.read<uint64_t>(what));
  if (type == ValueType::kArray) {
    return error(Code::kBadFile, "{} is an array of arrays, which no model needs", what);
  }
  if (count > kArrayElementsMax) {
    return error(Code::kBadFile, "{} has {} elements; the limit is {}", what, count,
                 kArrayElementsMax);
  }
  elements_total_ += count;
  if (elements_total_ > kMetadataElementsMax) {
    return error(Code::kBadFile, "{} brings the elements of all arrays to {}; the limit is {}",
                 what, elements_total_, kMetadataElementsMax);
  }
  if (count * element_bytes_min(type) > cursor_.remaining()) {
    return error(Code::kBadFile, "{} has {} elements of {}, more than the rest of the file holds",
                 what, count, type_name(type));
  }
  ASSIGN_OR_RETURN(Value value, with_reader(type, [&](auto read) {
                     return read_elements(cursor_, what, count, read);
                   }));
  return TypedValue{ValueType::kArray, type, std::move(value)};
}

Status MetadataParser::check_known_key(std::string_view key, const TypedValue& value) {
  if (key == "general.alignment") return set_alignment(value);

  const bool is_array = value.type == ValueType::kArray;
  const auto must_be = [&](bool right, std::string_view expected) -> Status {
    if (right) return Ok{};
    return error(Code::kBadFile, "metadata key '{}' is {}{}; it must be {}", key,
                 is_array ? "an ARRAY of " : "", type_name(value.element_type), expected);
  };
  const ValueType element = value.element_type;
  if (key == "tokenizer.ggml.tokens" || key == "tokenizer.ggml.merges") {
    return must_be(is_array && element == ValueType::kString, "an ARRAY of STRING");
  }
  if (key == "tokenizer.ggml.scores") {
    return must_be(is_array && element == ValueType::kFloat32, "an ARRAY of FLOAT32");
  }
  if (key == "tokenizer.ggml.token_type") {
    return must_be(is_array && is_integer(element), "an ARRAY of INT32");
  }
  return Ok{};
}

Status MetadataParser::set_alignment(const TypedValue& value) {
  if (value.type != ValueType::kUint32) {
    return error(Code::kBadFile, "general.alignment is {}; it must be UINT32",
                 type_name(value.type));
  }
  const uint64_t alignment = std::get<uint64_t>(value.value);
  if (!std::has_single_bit(alignment) || alignment > kAlignmentMax) {
    return error(Code::kBadFile, "general.alignment is {}; it must be a power of two from 1 to {}",
                 alignment, kAlignmentMax);
  }
  metadata_.alignment = static_cast<uint32_t>(alignment);
  return Ok{};
}

}  // namespace

Result<Metadata> parse_metadata(Cursor& cursor, uint64_t n_keys) {
  if (n_keys > kMetadataKeysMax) {
    return error(Code::kBadFile, "the header declares {} metadata keys; the limit is {}", n_keys,
                 kMetadataKeysMax);
  }
  MetadataParser parser(cursor);
  for (uint64_t i = 0; i < n_keys; ++i) TRY(parser.parse_pair());
  return parser.take();
}

std::string_view kind_name(const Value& value) {
  static constexpr std::string_view kNames[] = {"a bool",
                                                "an unsigned integer",
                                                "a signed integer",
                                                "a float",
                                                "a string",
                                                "an array of bools",
                                                "an array of unsigned integers",
                                                "an array of signed integers",
                                                "an array of floats",
                                                "an array of strings"};
  static_assert(std::size(kNames) == std::variant_size_v<Value>);
  return kNames[value.index()];
}

}  // namespace pacer::gguf
