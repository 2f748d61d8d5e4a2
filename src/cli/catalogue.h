// The catalogue: models that can be had by name. Compiled in from models.toml; $HEARTH_HOME/models.toml comes on top.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/environment.h"

namespace hearth {

extern const std::string_view kBuiltInCatalogue;

struct CatalogueModel {
    std::string name;
    std::string summary;
    std::string licence;
    std::uint64_t size_bytes = 0;       // 0: not known
    std::string sha256;                 // empty: not known
    std::vector<std::string> packages;  // Python packages as "name==version"
    std::vector<std::string> parts;     // the file inside each package
    std::string hub;                    // or "REPO/FILE" on the model hub
};

struct Catalogue {
    std::string default_model;
    std::vector<CatalogueModel> models;

    static Result<Catalogue> parse(std::string_view text, const std::string& name);
    // Built in, then the user's own file: its models replace those of the same name.
    static Result<Catalogue> load(const Environment& environment);

    const CatalogueModel* find(std::string_view name) const;
};

// Letters, digits, '.', '_' and '-', not beginning with '.' or '-': safe as a file name.
bool is_model_name(std::string_view name);
bool is_sha256(std::string_view text);  // 64 hex digits, in lower case

// Where the model NAME is kept once pulled.
std::string model_path(const Environment& environment, std::string_view name);

// MODEL on a command line to a path: a file, a pulled model, or an error that says what to do.
Result<std::string> resolve_model(const Environment& environment, const Catalogue& catalogue, const std::string& model);

}  // namespace hearth
