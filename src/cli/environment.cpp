#include "cli/environment.h"

#include <cstdlib>

namespace hearth {

namespace {

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

Environment read_environment() {
    Environment environment;
    environment.cpu_threads = variable("HEARTH_CPU_THREADS");
    environment.cpu_pin = variable("HEARTH_CPU_PIN");
    environment.isa = variable("HEARTH_ISA");
    environment.home = variable("HEARTH_HOME");
    if (environment.home.empty()) {
        const std::string cache = variable("XDG_CACHE_HOME");
        environment.home = (cache.empty() ? variable("HOME") + "/.cache" : cache) + "/hearth";
    }
    environment.hub_endpoint = variable("HF_ENDPOINT");
    if (environment.hub_endpoint.empty()) environment.hub_endpoint = "https://huggingface.co";
    while (environment.hub_endpoint.ends_with('/')) environment.hub_endpoint.pop_back();
    environment.api_key = variable("HEARTH_API_KEY");
    environment.no_color = !variable("NO_COLOR").empty();
    return environment;
}

}  // namespace hearth
