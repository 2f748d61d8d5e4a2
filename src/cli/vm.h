// What the files of `hearth vm` share.
#pragma once

#include "cli/options.h"
#include "cli/session.h"
#include "vm/forward.h"
#include "vm/run.h"

namespace hearth {

Result<vm::RunLimits> vm_limits(const Arguments& arguments);
Result<std::size_t> vm_threads(const Arguments& arguments, const Session& session);
vm::HeadMode vm_heads(const Arguments& arguments);
Status vm_bench(const Arguments& arguments, Session& session);
Status vm_verify(const Arguments& arguments, Session& session);
Status vm_run(const Arguments& arguments, Session& session);

}  // namespace hearth
