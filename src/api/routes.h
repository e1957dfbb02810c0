// Which endpoint answers which path: the map of the API.
#pragma once

#include "api/context.h"
#include "http/router.h"

namespace pacer::api {

// The context outlives the router and the server that runs it.
http::Router make_router(ApiContext& context);

}  // namespace pacer::api
