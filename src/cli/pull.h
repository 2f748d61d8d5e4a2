// Pulling a model, for the command and for a first `run`.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/catalogue.h"
#include "cli/session.h"

namespace hearth {

struct PulledModel {
    std::string name;
    std::string path;
    std::uint64_t size_bytes = 0;
    std::string sha256;  // empty when it was not computed
    bool already_here = false;
};

enum class Refetch : bool { No, Yes };

// Fetches a model of the catalogue unless it is here, checks it, and puts it in place in one step.
Result<PulledModel> pull_model(const CatalogueModel& model, Refetch refetch, Session& session);

// The path of the model MODEL stands for on a command line; the catalogue's default model is fetched when it is not
// here.
Result<std::string> find_or_pull(const Catalogue& catalogue, const std::string& model, Session& session);

}  // namespace hearth
