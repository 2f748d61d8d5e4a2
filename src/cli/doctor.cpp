// hearth doctor: what slows this machine, and what to do about it.
#include <unistd.h>

#include <climits>
#include <cstdlib>

#include "cli/commands.h"
#include "cli/wrapped.h"
#include "kernels/kernels.h"
#include "machine/health.h"

namespace hearth {

namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kIndent = 12;

constexpr Example kExamples[] = {{"hearth doctor", "Everything that costs speed here, why, and how to change it."},
                                 {"hearth doctor --json | jq .healthy", "The same for programs."}};

std::string sanitizer_of_build() {
#if defined(__SANITIZE_ADDRESS__)
    return "address";
#elif defined(__SANITIZE_THREAD__)
    return "thread";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
    return "address";
#elif __has_feature(thread_sanitizer)
    return "thread";
#else
    return "";
#endif
#else
    return "";
#endif
}

ProgramFacts program_facts(const Environment& environment) {
    ProgramFacts facts;
    facts.threads_variable = environment.cpu_threads;
    facts.isa_variable = environment.isa;
    for (const Kernels& kernels : supported_kernels()) facts.isa_levels.emplace_back(kernels.level);
#if !defined(__OPTIMIZE__)
    facts.is_optimised = false;
#endif
    facts.sanitizer = sanitizer_of_build();
    facts.load_of_our_own = 1;
    return facts;
}

// Mount points are told without links, from the root. A folder that is not there yet is taken by its name.
std::string real_path(const std::string& path) {
    char real[PATH_MAX];
    if (::realpath(path.c_str(), real) != nullptr) return real;
    if (path.starts_with('/')) return path;
    return ::getcwd(real, sizeof real) != nullptr ? std::string(real) + "/" + path : path;
}

std::string joined(const std::vector<std::string_view>& names) {
    std::string text;
    for (const std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
    return text;
}

std::string diagnosis_text(const Diagnosis& diagnosis, const Console& console) {
    std::string text;
    const auto part = [&](std::string_view label, std::string_view what) {
        text += "    " + console.for_output(Style::Dim, label) + std::string(kIndent - 4 - label.size(), ' ') +
                wrapped(what, kIndent, kWidth) + "\n";
    };
    for (const Finding& finding : diagnosis.findings) {
        text += console.for_output(Style::Bold, wrapped(finding.what, 0, kWidth)) + "\n";
        part("why", finding.why);
        part("remedy", finding.remedy);
        text += "\n";
    }
    if (diagnosis.findings.empty()) {
        text += console.for_output(Style::Green, "Nothing was found that slows this machine.") + "\n\n";
    }
    text += wrapped("Looked at: " + joined(diagnosis.checked) + ".", 0, kWidth) + "\n";
    if (!diagnosis.unseen.empty()) {
        text += wrapped("Not shown by this system: " + joined(diagnosis.unseen) + ".", 0, kWidth) + "\n";
    }
    return text;
}

Status run_doctor(const Arguments& arguments, Session& session) {
    const ProbeRoots roots;
    const Machine machine = detect_machine(roots);
    const Health health = read_health(roots, real_path(session.environment.models_folder()));
    const Diagnosis diagnosis = diagnose(machine, health, program_facts(session.environment));
    Console& console = session.console;
    console.print(arguments.flag("json") ? describe(diagnosis).dump(2) + "\n" : diagnosis_text(diagnosis, console));
    return {};
}

}  // namespace

const Command kDoctorCommand = {
    "doctor",
    "Find what slows this machine",
    "Looks at the build, kernels, threads, CPU limits and clocks, other load, memory, swap, huge pages, NUMA and where "
    "models are kept, and tells what costs speed, why, and the remedy. Changes nothing.",
    {},
    {},
    kExamples,
    run_doctor};

}  // namespace hearth
