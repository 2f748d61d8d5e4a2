// The environment variables Hearth reads: a closed list, read in one place.
#pragma once

#include <string>

namespace hearth {

struct Environment {
    std::string cpu_threads;   // HEARTH_CPU_THREADS: default of --threads
    std::string cpu_pin;       // HEARTH_CPU_PIN: 0 leaves threads free, 1 keeps each on one core
    std::string isa;           // HEARTH_ISA: default of --isa
    std::string home;          // HEARTH_HOME: where models are kept
    std::string hub_endpoint;  // HF_ENDPOINT: the model hub, as the hub's own tools read it
    std::string api_key;       // HEARTH_API_KEY: a key of hearth serve
    bool no_color = false;     // NO_COLOR

    std::string models_folder() const { return home + "/models"; }
    std::string packs_folder() const { return home + "/packs"; }  // weights as this machine's kernels like them
    std::string downloads_folder() const { return home + "/downloads"; }
};

// HEARTH_HOME falls back to $XDG_CACHE_HOME/hearth, then ~/.cache/hearth.
Environment read_environment();

}  // namespace hearth
