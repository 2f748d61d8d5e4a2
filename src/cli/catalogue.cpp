#include "cli/catalogue.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "base/mapped_file.h"
#include "cli/options.h"
#include "cli/toml.h"

namespace hearth {

namespace {

Error fault(const std::string& file, const std::string& model, const std::string& reason) {
    return Error{ErrorCode::Failed, file + ": model '" + model + "': " + reason};
}

// A member of an archive that cannot lead out of a folder.
bool is_inner_path(std::string_view path) {
    return !path.empty() && path.front() != '/' && path.find("..") == std::string_view::npos;
}

Status read_entry(const std::string& file, const std::string& key, const TomlValue& value, CatalogueModel& model) {
    const std::string* text = std::get_if<std::string>(&value);
    const std::vector<std::string>* list = std::get_if<std::vector<std::string>>(&value);
    const std::int64_t* number = std::get_if<std::int64_t>(&value);
    const auto take_text = [&](std::string& field) -> Status {
        if (text == nullptr) return fault(file, model.name, key + " must be a string");
        field = *text;
        return {};
    };
    const auto take_list = [&](std::vector<std::string>& field) -> Status {
        if (list == nullptr) return fault(file, model.name, key + " must be an array of strings");
        field = *list;
        return {};
    };
    if (key == "summary") return take_text(model.summary);
    if (key == "licence") return take_text(model.licence);
    if (key == "sha256") return take_text(model.sha256);
    if (key == "hub") return take_text(model.hub);
    if (key == "packages") return take_list(model.packages);
    if (key == "parts") return take_list(model.parts);
    if (key == "size") {
        if (number == nullptr || *number <= 0) return fault(file, model.name, "size must be a positive number");
        model.size_bytes = static_cast<std::uint64_t>(*number);
        return {};
    }
    return fault(file, model.name, "unknown key '" + key + "'");
}

Result<CatalogueModel> read_model(const std::string& file, const TomlTable& table) {
    CatalogueModel model;
    model.name = table.path[1];
    if (!is_model_name(model.name)) return fault(file, model.name, "not a name for a model");
    for (const auto& [key, value] : table.entries) TRY(read_entry(file, key, value, model));
    if (!model.sha256.empty() && !is_sha256(model.sha256)) {
        return fault(file, model.name, "sha256 must be 64 lower-case hex digits");
    }
    if (model.hub.empty() == model.packages.empty()) return fault(file, model.name, "needs either packages or hub");
    if (model.packages.size() != model.parts.size()) {
        return fault(file, model.name, "packages and parts must be of one length");
    }
    for (const std::string& package : model.packages) {
        if (package.empty() || package.front() == '-') return fault(file, model.name, "a package has no name");
    }
    if (!model.packages.empty() && (model.size_bytes == 0 || model.sha256.empty())) {
        return fault(file, model.name, "needs size and sha256");
    }
    for (const std::string& part : model.parts) {
        if (!is_inner_path(part)) return fault(file, model.name, "'" + part + "' is not a path inside a package");
    }
    return model;
}

bool exists(const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0;
}

}  // namespace

Result<Catalogue> Catalogue::parse(std::string_view text, const std::string& name) {
    const std::vector<TomlTable> tables = TRY(parse_toml(text, name));
    Catalogue catalogue;
    for (const TomlTable& table : tables) {
        if (table.path.empty()) {
            for (const auto& [key, value] : table.entries) {
                const std::string* word = std::get_if<std::string>(&value);
                if (key != "default" || word == nullptr) {
                    return Error{ErrorCode::Failed, name + ": only default = \"NAME\" may stand before the models"};
                }
                catalogue.default_model = *word;
            }
        } else if (table.path.size() == 2 && table.path[0] == "models") {
            catalogue.models.push_back(TRY(read_model(name, table)));
        } else {
            return Error{ErrorCode::Failed,
                         name + ": the table [" + table.path[0] + "] is not of the form [models.NAME]"};
        }
    }
    return catalogue;
}

Result<Catalogue> Catalogue::load(const Environment& environment) {
    Catalogue catalogue = TRY(parse(kBuiltInCatalogue, "models.toml"));
    const std::string own = environment.home + "/models.toml";
    if (!exists(own)) return catalogue;
    Catalogue extra = TRY(parse(TRY(read_file(own, 1 << 20)), own));
    if (!extra.default_model.empty()) catalogue.default_model = extra.default_model;
    for (CatalogueModel& model : extra.models) {
        const auto same = std::find_if(catalogue.models.begin(), catalogue.models.end(),
                                       [&](const CatalogueModel& other) { return other.name == model.name; });
        if (same != catalogue.models.end()) {
            *same = std::move(model);
        } else {
            catalogue.models.push_back(std::move(model));
        }
    }
    return catalogue;
}

const CatalogueModel* Catalogue::find(std::string_view name) const {
    for (const CatalogueModel& model : models) {
        if (model.name == name) return &model;
    }
    return nullptr;
}

bool is_sha256(std::string_view text) {
    return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_model_name(std::string_view name) {
    if (name.empty() || name.size() > 200 || name.front() == '.' || name.front() == '-') return false;
    return std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
               c == '-';
    });
}

std::string model_path(const Environment& environment, std::string_view name) {
    return environment.models_folder() + "/" + std::string(name) + ".gguf";
}

Result<std::string> resolve_model(const Environment& environment, const Catalogue& catalogue,
                                  const std::string& model) {
    if (model.empty()) return Error{ErrorCode::Usage, "MODEL is empty"};
    // A pulled file may be a link to one kept elsewhere; parts of a split model are looked for beside the real one.
    if (is_model_name(model)) {
        const std::string kept = model_path(environment, model);
        if (char* real = ::realpath(kept.c_str(), nullptr)) {
            std::string path(real);
            std::free(real);
            return path;
        }
    }
    if (exists(model) || model.find('/') != std::string::npos || model.ends_with(".gguf")) return model;
    if (catalogue.find(model) != nullptr) {
        return Error{ErrorCode::InvalidModel, model + ": not here yet; fetch it with: hearth pull " + model};
    }
    std::vector<std::string_view> names;
    for (const CatalogueModel& known : catalogue.models) names.push_back(known.name);
    std::string hint = suggestion(model, names);
    if (hint.empty()) hint = " (hearth pull --list shows the catalogue)";
    return Error{ErrorCode::InvalidModel, model + ": no such file, and no model of this name" + hint};
}

}  // namespace hearth
