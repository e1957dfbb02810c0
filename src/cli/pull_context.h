// What fetching from any source needs, handed down by pull_model.
#pragma once

#include <string>
#include <vector>

#include "cli/pull_progress.h"
#include "cli/pull_store.h"
#include "http/download.h"

namespace pacer::cli {

struct PullContext {
  ModelStore& store;
  http::Downloader& web;
  PullProgress& progress;
};

// Fetches `request` to models/`name`, unless it is there; checks, places and remembers it. A
// response that is not ok() changed nothing.
Result<http::DownloadResponse> fetch_model_file(PullContext& context,
                                                const http::DownloadRequest& request,
                                                const std::string& name,
                                                const http::ExpectedFile& expected);

}  // namespace pacer::cli
