#include "server/api/served_model.h"

#include <cstdio>
#include <ctime>
#include <new>

#include "base/hash.h"

namespace hearth {

namespace {

std::string_view template_source(const Engine& engine) {
    const Result<std::optional<std::string_view>> source = engine.file().find_string("tokenizer.chat_template");
    return source.ok() ? source->value_or("") : std::string_view();
}

std::string make_fingerprint(const Engine& engine, const std::string& version) {
    std::string text = version + "|" + engine.info().architecture + "|" + std::string(engine.isa()) + "|" +
                       (engine.prefill() == Prefill::Fast ? "fast" : "exact") + "|" +
                       std::to_string(engine.file().file_bytes());
    if (engine.kv_layout().type != KvType::F16) text += "|" + std::string(kv_type_name(engine.kv_layout().type));
    for (const GgufTensor& tensor : engine.file().tensors()) text += "|" + std::string(tensor.name);
    const std::uint64_t hash = hash_bytes(std::as_bytes(std::span(text.data(), text.size())));
    char digits[24];
    std::snprintf(digits, sizeof digits, "fp_%016llx", static_cast<unsigned long long>(hash));
    return digits;
}

}  // namespace

ServedModel::ServedModel(const ModelSpec& spec, std::shared_ptr<Engine> loaded, const SchedulerOptions& options,
                         std::function<void(const StepReport&)> on_step)
    : name(spec.name),
      engine(std::move(loaded)),
      encoder(engine->tokenizer()),
      tool_format(choose_tool_format(template_source(*engine))),
      fingerprint(make_fingerprint(*engine, spec.version)),
      scheduler(engine, options, std::move(on_step)) {}

std::string_view name_of(LoadState state) {
    switch (state) {
        case LoadState::Waiting: return "waiting";
        case LoadState::Loading: return "loading";
        case LoadState::Ready: return "ready";
        case LoadState::Failed: return "failed";
    }
    return "failed";
}

ModelList::ModelList(std::vector<ModelSpec> specs, const SchedulerOptions& options, OnStep on_step)
    : options_(options), on_step_(std::move(on_step)), created_(static_cast<std::int64_t>(std::time(nullptr))) {
    for (ModelSpec& spec : specs) {
        slots_.push_back(std::make_unique<Slot>());
        slots_.back()->spec = std::move(spec);
    }
}

ModelList::~ModelList() {
    stopping_ = true;
}

void ModelList::load_in_background() {
    loader_ = std::jthread([this] {
        for (const std::unique_ptr<Slot>& slot : slots_) {
            if (stopping_) return;
            try {
                load(*slot);
            } catch (const std::bad_alloc&) {  // one model too large must not end the others
                fail(*slot, slot->spec.path + ": there is not enough memory for it");
            }
        }
    });
}

void ModelList::fail(Slot& slot, std::string error) {
    const std::scoped_lock lock(mutex_);
    slot.error = std::move(error);
    slot.state = LoadState::Failed;
}

void ModelList::load(Slot& slot) {
    slot.state = LoadState::Loading;
    EngineOptions options = slot.spec.engine;
    options.pack_progress = [&slot](std::size_t done, std::size_t total) {
        slot.progress = total == 0 ? 0 : static_cast<double>(done) / static_cast<double>(total);
    };
    Result<std::shared_ptr<Engine>> engine = Engine::load(slot.spec.path, options);
    if (!engine.ok()) return fail(slot, engine.error().message);
    OnStep on_step = on_step_;
    const std::string name = slot.spec.name;
    auto model = std::make_unique<ServedModel>(slot.spec, std::move(engine).value(), options_,
                                               [on_step, name](const StepReport& report) {
                                                   if (on_step) on_step(name, report);
                                               });
    const std::scoped_lock lock(mutex_);
    slot.model = std::move(model);
    slot.progress = 1;
    slot.state = LoadState::Ready;
}

ServedModel* ModelList::find(std::string_view name) const {
    const std::scoped_lock lock(mutex_);
    for (const std::unique_ptr<Slot>& slot : slots_) {
        if (name.empty() || slot->spec.name == name) return slot->model.get();
    }
    return nullptr;
}

std::vector<ModelStatus> ModelList::status() const {
    const std::scoped_lock lock(mutex_);
    std::vector<ModelStatus> all;
    for (const std::unique_ptr<Slot>& slot : slots_) {
        all.push_back({slot->spec.name, slot->state.load(), slot->progress.load(), slot->error});
    }
    return all;
}

std::vector<ServedModel*> ModelList::ready() const {
    const std::scoped_lock lock(mutex_);
    std::vector<ServedModel*> all;
    for (const std::unique_ptr<Slot>& slot : slots_) {
        if (slot->model != nullptr) all.push_back(slot->model.get());
    }
    return all;
}

bool ModelList::settled() const {
    for (const std::unique_ptr<Slot>& slot : slots_) {
        const LoadState state = slot->state;
        if (state != LoadState::Ready && state != LoadState::Failed) return false;
    }
    return true;
}

}  // namespace hearth
