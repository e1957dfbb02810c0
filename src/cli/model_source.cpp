#include "cli/model_source.h"

#include <utility>

#include "cli/pull_model.h"
#include "cli/pull_source.h"

namespace pacer::cli {

Result<std::string> resolve_model(std::string_view name) {
  if (!is_source(name)) return std::string(name);
  ASSIGN_OR_RETURN(PulledModel model, pull_model(name));
  return std::move(model.path);
}

}  // namespace pacer::cli
