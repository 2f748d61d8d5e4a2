// hearth pull: models by name, from the hub, or from a file. A model appears under its name whole and checked, or not
// at all: everything unfinished lives in the downloads folder.
#include "cli/pull.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "base/file_lock.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/fetch.h"
#include "cli/files.h"
#include "gguf/gguf.h"

namespace hearth {

namespace {

constexpr Positional kPositionals[] = {
    {.name = "SOURCE",
     .kind = ValueKind::Model,
     .required = false,
     .help = "A name of the catalogue, hf:OWNER/NAME/FILE.gguf, or a path of a GGUF file; none: the default model."}};
constexpr Option kOptions[] = {
    {.name = "list", .help = "Show the catalogue and what of it is here."},
    {.name = "name",
     .kind = ValueKind::Text,
     .value_name = "NAME",
     .help = "Keep the model under this name.",
     .default_text = "the file's own"},
    {.name = "sha256",
     .kind = ValueKind::Text,
     .value_name = "HEX",
     .help = "Refuse the file unless it has this checksum.",
     .default_text = "what the catalogue or the hub says"},
    {.name = "force", .help = "Fetch again, even when the model is here."},
};
constexpr Example kExamples[] = {
    {"hearth pull smollm2-135m", "Fetches a model of the catalogue."},
    {"hearth pull --list", "Shows what can be fetched by name, and what is here."},
    {"hearth pull hf:Qwen/Qwen2.5-0.5B-Instruct-GGUF/qwen2.5-0.5b-instruct-q4_k_m.gguf",
     "Fetches a file from the model hub; it is then known as qwen2.5-0.5b-instruct-q4_k_m."},
    {"hearth pull ~/models/mine.gguf --name mine", "Gives a file of yours a name; the file stays where it is."}};

// What checks out moves from the work folder to its place under the model's name.
Result<PulledModel> settle(const CatalogueModel& model, const Fetched& fetched, const std::string& work_folder,
                           Session& session) {
    ProgressBar bar(session.console, "checking " + model.name, model.size_bytes, ProgressBar::Unit::Bytes);
    const std::string whole = work_folder + "/whole.gguf";
    const std::string sha256 = TRY(join_files(fetched.parts, whole, [&](std::uint64_t done) { bar.update(done); }));
    bar.clear();
    const std::uint64_t size_bytes = file_size(whole).value_or(0);
    const std::string expected = model.sha256.empty() ? fetched.sha256 : model.sha256;
    const auto refuse = [&](const std::string& reason) {
        remove_tree(work_folder);
        return Error{ErrorCode::InvalidModel, model.name + ": " + reason + "; the download was removed"};
    };
    if (model.size_bytes != 0 && size_bytes != model.size_bytes) {
        return refuse("the download has " + std::to_string(size_bytes) + " bytes, " + std::to_string(model.size_bytes) +
                      " were expected");
    }
    if (!expected.empty() && sha256 != expected) {
        return refuse("the download has the checksum " + sha256 + ", " + expected + " was expected");
    }
    if (const Result<GgufFile> file = GgufFile::open(whole); !file.ok()) return refuse(file.error().message);
    const std::string path = model_path(session.environment, model.name);
    TRY(rename_file(whole, path));
    remove_tree(work_folder);
    return PulledModel{model.name, path, size_bytes, sha256, false};
}

// The checksum the user asks for, in lower case; empty: none.
Result<std::string> wanted_checksum(const Arguments& arguments) {
    std::string wanted = arguments.text("sha256").value_or("");
    for (char& c : wanted) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
    if (arguments.text("sha256") && !is_sha256(wanted)) {
        return Error{ErrorCode::Usage, "--sha256: a checksum is 64 hex digits"};
    }
    return wanted;
}

// Of a file that is not ours to remove.
Status check_file(const std::string& path, const std::string& wanted, Session& session) {
    if (wanted.empty()) return {};
    ProgressBar bar(session.console, "checking " + path, file_size(path).value_or(0), ProgressBar::Unit::Bytes);
    const std::string sha256 = TRY(hash_file(path, [&](std::uint64_t done) { bar.update(done); }));
    bar.clear();
    if (sha256 == wanted) return {};
    return Error{ErrorCode::InvalidModel, path + ": has the checksum " + sha256 + ", " + wanted + " was expected"};
}

Result<PulledModel> add_file(const std::string& given, const std::optional<std::string>& name,
                             const std::string& sha256, Refetch refetch, Session& session) {
    const GgufFile file = TRY(GgufFile::open(given));
    TRY(check_file(given, sha256, session));
    char* real = ::realpath(given.c_str(), nullptr);
    if (real == nullptr) return Error{ErrorCode::Failed, given + ": " + std::strerror(errno)};
    const std::string path(real);
    std::free(real);
    std::string stem = path.substr(path.rfind('/') + 1);
    if (stem.ends_with(".gguf")) stem.resize(stem.size() - 5);
    const std::string own = name.value_or(stem);
    if (!is_model_name(own)) {
        return Error{ErrorCode::Usage,
                     "'" + own + "' is no name for a model (letters, digits, '.', '_', '-'): use --name"};
    }
    const std::string link = model_path(session.environment, own);
    TRY(make_folders(session.environment.models_folder()));
    if (refetch == Refetch::No && ::access(link.c_str(), F_OK) == 0) {
        return Error{ErrorCode::Failed, own + ": there is a model of this name already (--force replaces it)"};
    }
    // A link, made beside and renamed: the user's file stays where it is, and the name never points at nothing.
    const std::string beside = link + ".new" + std::to_string(::getpid());
    ::unlink(beside.c_str());
    if (::symlink(path.c_str(), beside.c_str()) != 0)
        return Error{ErrorCode::Failed, beside + ": " + std::strerror(errno)};
    TRY(rename_file(beside, link));
    return PulledModel{own, link, file_size(path).value_or(0), sha256, false};
}

Status show_catalogue(const Arguments& arguments, const Catalogue& catalogue, Session& session) {
    Json::Array rows;
    std::string text;
    for (const CatalogueModel& model : catalogue.models) {
        const std::string path = model_path(session.environment, model.name);
        const bool here = ::access(path.c_str(), F_OK) == 0;
        const bool is_default = model.name == catalogue.default_model;
        rows.push_back(Json::Object{{"name", model.name},
                                    {"summary", model.summary},
                                    {"licence", model.licence},
                                    {"size_bytes", model.size_bytes},
                                    {"sha256", model.sha256},
                                    {"default", is_default},
                                    {"present", here},
                                    {"path", here ? Json(path) : Json()}});
        std::string line = (here ? "* " : "  ") + model.name;
        line.resize(std::max<std::size_t>(line.size() + 1, 24), ' ');
        line += format_bytes(model.size_bytes);
        line.resize(std::max<std::size_t>(line.size() + 1, 36), ' ');
        line += model.licence;
        line.resize(std::max<std::size_t>(line.size() + 1, 50), ' ');
        text += line + model.summary + (is_default ? " (default)" : "") + "\n";
    }
    for (const std::string& file : files_in(session.environment.models_folder())) {
        if (!file.ends_with(".gguf")) continue;
        const std::string name = file.substr(0, file.size() - 5);
        if (catalogue.find(name) != nullptr) continue;
        const std::string path = model_path(session.environment, name);
        const std::uint64_t size_bytes = file_size(path).value_or(0);
        rows.push_back(Json::Object{{"name", name}, {"size_bytes", size_bytes}, {"present", true}, {"path", path}});
        text += "* " + name + "  " + format_bytes(size_bytes) + "\n";
    }
    if (arguments.flag("json")) {
        session.console.print_line(Json(std::move(rows)).dump(2));
    } else {
        session.console.print(text);
        session.console.note(
            session.console.for_error(Style::Dim, "* is here, in " + session.environment.models_folder()));
    }
    return {};
}

Result<PulledModel> pull_source(const Arguments& arguments, const Catalogue& catalogue, Session& session) {
    const std::string source = arguments.positional(0).value_or(catalogue.default_model);
    const Refetch refetch = arguments.flag("force") ? Refetch::Yes : Refetch::No;
    const std::optional<std::string> name = arguments.text("name");
    const std::string sha256 = TRY(wanted_checksum(arguments));
    CatalogueModel model;
    if (source.starts_with("hf:")) {
        const HubFile hub = TRY(parse_hub_file(source));
        model.name = hub.name();
        model.hub = source;
    } else if (const CatalogueModel* known = catalogue.find(source)) {
        model = *known;
    } else if (::access(source.c_str(), F_OK) == 0 || source.find('/') != std::string::npos ||
               source.ends_with(".gguf")) {
        return add_file(source, name, sha256, refetch, session);
    } else {
        std::vector<std::string_view> names;
        for (const CatalogueModel& other : catalogue.models) names.push_back(other.name);
        std::string hint = suggestion(source, names);
        if (hint.empty()) hint = " (hearth pull --list shows them)";
        return Error{ErrorCode::Usage, "pull: '" + source + "' is neither a file nor in the catalogue" + hint};
    }
    if (name) model.name = *name;
    if (!is_model_name(model.name))
        return Error{ErrorCode::Usage, "--name: '" + model.name + "' is no name for a model"};
    if (!sha256.empty()) model.sha256 = sha256;
    PulledModel pulled = TRY(pull_model(model, refetch, session));
    if (pulled.already_here && !sha256.empty()) {
        TRY(check_file(pulled.path, sha256, session));
        pulled.sha256 = sha256;
    }
    return pulled;
}

Status run_pull(const Arguments& arguments, Session& session) {
    const Catalogue catalogue = TRY(Catalogue::load(session.environment));
    if (arguments.flag("list")) return show_catalogue(arguments, catalogue, session);
    const PulledModel pulled = TRY(pull_source(arguments, catalogue, session));
    if (arguments.flag("json")) {
        session.console.print_line(Json(Json::Object{{"name", pulled.name},
                                                     {"path", pulled.path},
                                                     {"size_bytes", pulled.size_bytes},
                                                     {"sha256", pulled.sha256.empty() ? Json() : Json(pulled.sha256)},
                                                     {"already_here", pulled.already_here}})
                                       .dump());
        return {};
    }
    session.console.note(pulled.name + (pulled.already_here ? " is here already" : " is ready") + ": hearth run " +
                         pulled.name);
    session.console.print_line(pulled.path);
    return {};
}

}  // namespace

Result<std::string> find_or_pull(const Catalogue& catalogue, const std::string& model, Session& session) {
    Result<std::string> path = resolve_model(session.environment, catalogue, model);
    const CatalogueModel* known = catalogue.find(model);
    if (path.ok() || known == nullptr || model != catalogue.default_model) return path;
    return TRY(pull_model(*known, Refetch::No, session)).path;
}

Result<PulledModel> pull_model(const CatalogueModel& model, Refetch refetch, Session& session) {
    const Environment& environment = session.environment;
    const std::string path = model_path(environment, model.name);
    const std::string work_folder = environment.downloads_folder() + "/" + model.name;
    TRY(make_folders(environment.models_folder()));
    TRY(make_folders(environment.downloads_folder()));
    bool told = false;
    const FileLock lock = TRY(FileLock::take(work_folder + ".lock", [&] {
        if (!told) session.console.note("another pull of " + model.name + " is under way: waiting for it");
        return told = true;
    }));
    if (refetch == Refetch::No && ::access(path.c_str(), F_OK) == 0) {
        return PulledModel{model.name, path, file_size(path).value_or(0), "", true};
    }
    TRY(make_folders(work_folder));
    // Room for the download, the unpacked part and the joined file at the worst moment.
    const std::uint64_t needed = 2 * model.size_bytes;
    const std::uint64_t free_bytes = free_space(work_folder);
    if (free_bytes < needed) {
        return Error{ErrorCode::OutOfResources, model.name + ": needs " + format_bytes(needed) + " in " +
                                                    environment.home + ", " + format_bytes(free_bytes) + " are free"};
    }
    std::string intent = "pulling " + model.name;
    if (model.size_bytes > 0) intent += " (" + format_bytes(model.size_bytes) + ")";
    if (!model.licence.empty()) intent += ", licence " + model.licence;
    session.console.note(intent);
    if (!model.packages.empty()) {
        return settle(model, TRY(fetch_packages(model, work_folder, session.console)), work_folder, session);
    }
    const HubFile hub = TRY(parse_hub_file(model.hub));
    const std::string url = hub.url(environment.hub_endpoint);
    const Fetched fetched = TRY(fetch_url(model.name, url, model.size_bytes, work_folder, session.console));
    return settle(model, fetched, work_folder, session);
}

const Command kPullCommand = {
    "pull",
    "Fetch a model by name, with checksum and resume",
    "Fetches a model and keeps it in $HEARTH_HOME/models, so that every command knows it by name. An interrupted pull "
    "goes on where it stopped. The model appears whole and checked, or not at all.",
    kPositionals,
    kOptions,
    kExamples,
    run_pull};

}  // namespace hearth
