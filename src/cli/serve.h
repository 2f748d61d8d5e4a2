// hearth serve: the part that needs the server's libraries, and may be left out of a build.
#pragma once

#include "base/result.h"
#include "cli/options.h"
#include "cli/session.h"

namespace hearth {

Status serve_models(const Arguments& arguments, Session& session);

}  // namespace hearth
