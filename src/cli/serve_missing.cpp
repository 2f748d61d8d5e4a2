// In the place of serve_models.cpp where the server's libraries were not found.
#include "cli/serve.h"

namespace hearth {

Status serve_models(const Arguments&, Session&) {
    return Error{ErrorCode::Failed,
                 "serve: this build has no server; install Boost 1.81's headers (libboost1.81-dev) and OpenSSL "
                 "(libssl-dev) and build again"};
}

}  // namespace hearth
