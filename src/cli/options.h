// docs/options.md, from the declarations of the flags.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace pacer::cli {

std::string options_markdown(CLI::App& app);

}  // namespace pacer::cli
