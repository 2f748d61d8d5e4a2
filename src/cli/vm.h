// What the files of `hearth vm` share.
#pragma once

#include "cli/options.h"
#include "cli/session.h"
#include "vm/run.h"

namespace hearth {

Result<vm::RunLimits> vm_limits(const Arguments& arguments);
Status vm_run(const Arguments& arguments, Session& session);

}  // namespace hearth
