// Text as a models.toml: an error that names the file, or a catalogue whose models have names that are safe as files.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "cli/catalogue.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace hearth;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const Result<Catalogue> catalogue = Catalogue::parse(text, "models.toml");
    if (!catalogue.ok()) {
        if (catalogue.error().message.find("models.toml") == std::string::npos) std::abort();
        return 0;
    }
    for (const CatalogueModel& model : catalogue->models) {
        if (!is_model_name(model.name) || catalogue->find(model.name) == nullptr) std::abort();
    }
    return 0;
}
