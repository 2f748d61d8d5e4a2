// The models a server offers: loaded one after the other in the background, found by name. Once loaded a model stays
// until the list ends, so pointers to it are good for as long as there are requests.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/scheduler.h"
#include "server/api/tools.h"
#include "text/chat_prompt.h"

namespace hearth {

struct ModelSpec {
    std::string name;
    std::string path;
    EngineOptions engine;
    std::string version;  // of the program, for the fingerprint
};

// A loaded model and what the routes need to know of it.
struct ServedModel {
    ServedModel(const ModelSpec& spec, std::shared_ptr<Engine> loaded, const SchedulerOptions& options,
                std::function<void(const StepReport&)> on_step);

    std::string name;
    std::shared_ptr<Engine> engine;
    ChatEncoder encoder;
    ToolFormat tool_format;
    std::string fingerprint;  // changes with the model, the program and whatever changes numbers
    Scheduler scheduler;      // last: ends first

    const Tokenizer& tokenizer() const { return engine->tokenizer(); }
};

enum class LoadState : std::uint8_t { Waiting, Loading, Ready, Failed };

struct ModelStatus {
    std::string name;
    LoadState state = LoadState::Waiting;
    double progress = 0;  // 0 to 1, of packing the weights
    std::string error;
};

class ModelList {
public:
    using OnStep = std::function<void(const std::string& model, const StepReport&)>;
    ModelList(std::vector<ModelSpec> specs, const SchedulerOptions& options, OnStep on_step);
    ~ModelList();

    void load_in_background();
    // The model of that name when it is ready; empty name: the first. `status` tells otherwise why not.
    ServedModel* find(std::string_view name) const;
    std::vector<ModelStatus> status() const;
    std::vector<ServedModel*> ready() const;
    bool settled() const;  // each is ready or has failed
    std::int64_t created() const { return created_; }

private:
    struct Slot {
        ModelSpec spec;
        std::atomic<LoadState> state{LoadState::Waiting};
        std::atomic<double> progress{0};
        std::string error;                   // guarded by mutex_
        std::unique_ptr<ServedModel> model;  // guarded by mutex_; stays
    };
    void load(Slot& slot);
    void fail(Slot& slot, std::string error);

    mutable std::mutex mutex_;
    std::vector<std::unique_ptr<Slot>> slots_;
    SchedulerOptions options_;
    OnStep on_step_;
    std::int64_t created_;
    std::atomic<bool> stopping_{false};
    std::jthread loader_;
};

std::string_view name_of(LoadState state);

}  // namespace hearth
