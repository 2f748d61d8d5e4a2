#include "backend/cpu/packed_weights.h"

#include <algorithm>
#include <filesystem>

#include "backend/cpu/pack_file.h"
#include "base/memory.h"

namespace hearth {

namespace {

constexpr std::size_t kSmallestFile = std::size_t{32} << 20;  // less is packed again faster than it is found

const PanelKernels& panels_of(const Kernels& kernels, const TensorView& weight) {
    return kernels.panels[static_cast<std::size_t>(weight.type)];
}

// Of floats only what fills its blocks: an added zero could turn a sum of -0 into +0.
bool can_be_packed(const TensorView& weight, const PanelKernels& panels) {
    return panels.rows != 0 && (is_quantised(weight) || weight.shape.columns() % panels.block_columns == 0);
}

// The matrices of every step whose quantised weights can all be packed: they share their activations, in tiles or not.
std::vector<PackJob> collect_jobs(const Plan& plan, const Kernels& kernels) {
    const Arena& arena = plan.graph().arena();
    std::vector<PackJob> jobs;
    for (const PlanStep step : plan.steps()) {
        const std::span<const Node> matmuls = plan.matmuls_of(step);
        const bool all = std::ranges::all_of(matmuls, [&](const Node& node) {
            const TensorView& weight = arena.constant(node.constant);
            return !is_quantised(weight) || can_be_packed(weight, panels_of(kernels, weight));
        });
        if (!all) continue;
        for (const Node& node : matmuls) {
            const TensorView& weight = arena.constant(node.constant);
            const PanelKernels& panels = panels_of(kernels, weight);
            const bool known =
                std::ranges::any_of(jobs, [&](const PackJob& job) { return job.constant == node.constant; });
            if (!can_be_packed(weight, panels) || known) continue;
            jobs.push_back({.constant = node.constant,
                            .weight = weight,
                            .kernels = &panels,
                            .panel_bytes = panels.panel_bytes(weight.shape.columns()),
                            .panels = (weight.shape.rows() + panels.rows - 1) / panels.rows});
        }
    }
    return jobs;
}

// Weights that are not packed are read where they lie, those that are not any more; but if they are the embedding too,
// a row here and there.
void choose_pages(const Plan& plan, std::span<const PackJob> jobs) {
    for (const PackJob& job : jobs) prefer_small_pages({job.weight.data, job.weight.size_bytes()});
    if (!jobs.empty()) return;
    constexpr std::size_t kLargePage = std::size_t{2} << 20;
    const Arena& arena = plan.graph().arena();
    std::vector<std::span<const std::byte>> all;
    for (const PlanStep step : plan.steps()) {
        for (const Node& node : plan.matmuls_of(step)) {
            const TensorView& weight = arena.constant(node.constant);
            all.emplace_back(weight.data, weight.size_bytes());
        }
    }
    // Neighbours together: their borders lie in the middle of large pages.
    std::ranges::sort(all, {}, [](const auto& bytes) { return bytes.data(); });
    std::span<const std::byte> run;
    for (const std::span<const std::byte> next : all) {
        if (!run.empty() && next.data() <= run.data() + run.size() + kLargePage) {
            run = {run.data(), std::max(run.data() + run.size(), next.data() + next.size())};
        } else {
            prefer_large_pages(run);
            run = next;
        }
    }
    prefer_large_pages(run);
}

void pack_all(std::span<PackJob> jobs, std::byte* base, ThreadPool& pool, const PackOptions& options) {
    std::size_t total = 0;
    std::size_t done = 0;
    for (const PackJob& job : jobs) total += job.size_bytes();
    for (PackJob& job : jobs) {
        pack_matrix(job, base, pool, options.release);
        done += job.size_bytes();
        if (options.progress) options.progress(done, total);
    }
}

struct FoundFile {
    MappedFile file;
    PackOutcome outcome;
};

// Maps the file, or makes it. One that another process is making meanwhile is waited for and shared.
Result<FoundFile> map_or_make(std::span<PackJob> jobs, const PackFileKey& key, std::size_t size_bytes, ThreadPool& pool,
                              const PackOptions& options) {
    const auto map = [&] { return open_pack_file(options.file, jobs, key, pool); };
    if (Result<MappedFile> file = map(); file.ok()) return FoundFile{std::move(file.value()), PackOutcome::FileMapped};
    if (options.progress) options.progress(0, size_bytes);
    const FileLock lock = TRY(lock_pack_file(options.file, options.patience));
    if (Result<MappedFile> file = map(); file.ok()) return FoundFile{std::move(file.value()), PackOutcome::FileMapped};
    MappedFile file = TRY(write_pack_file(options.file, jobs, key, size_bytes,
                                          [&](std::byte* base) { pack_all(jobs, base, pool, options); }));
    remove_files_of_lost_models(std::filesystem::path(options.file).parent_path().string());
    return FoundFile{std::move(file), PackOutcome::FileWritten};
}

}  // namespace

bool is_quantised(const TensorView& weight) {
    return traits(weight.type).activation != ActivationFormat::F32;
}

const PackedMatrix* PackedWeights::find(Handle constant) const {
    if (constant.index >= matrices_.size() || matrices_[constant.index].panels == nullptr) return nullptr;
    return &matrices_[constant.index];
}

void PackedWeights::point_into(std::span<const PackJob> jobs, const std::byte* base) {
    for (const PackJob& job : jobs) {
        if (matrices_.size() <= job.constant.index) matrices_.resize(job.constant.index + 1);
        matrices_[job.constant.index] = {base + job.offset, job.panel_bytes, job.kernels->rows};
        size_bytes_ += job.size_bytes();
    }
}

PackedSize PackedWeights::planned_size(const Plan& plan, const Kernels& kernels) {
    PackedSize size;
    for (const PackJob& job : collect_jobs(plan, kernels)) {
        size.packed_bytes += job.size_bytes();
        size.source_bytes += job.weight.size_bytes();
    }
    return size;
}

PackedWeights PackedWeights::create(const Plan& plan, const Kernels& kernels, ThreadPool& pool,
                                    const PackOptions& options) {
    PackedWeights packed;
    std::vector<PackJob> jobs = collect_jobs(plan, kernels);
    if (options.mode == PackMode::Off) jobs.clear();
    choose_pages(plan, jobs);
    if (jobs.empty()) return packed;
    const std::size_t size_bytes = place_jobs(jobs);
    const PackFileKey key{kernels.panel_layout, options.source, options.model};

    if (options.mode == PackMode::Auto && !options.file.empty() && size_bytes >= kSmallestFile) {
        Result<FoundFile> found = map_or_make(jobs, key, size_bytes, pool, options);
        if (found.ok()) {
            packed.file_ = std::move(found.value().file);
            packed.outcome_ = found.value().outcome;
            packed.point_into(jobs, packed.file_.bytes().data());
            return packed;
        }
        packed.reason_ = found.error().message;
    }

    packed.outcome_ = PackOutcome::Unpacked;
    if (options.memory_available != 0 && size_bytes > options.memory_available) {
        packed.reason_ = "there is no memory for a packed copy of the weights";
        return packed;
    }
    Result<Reservation> memory = Reservation::create(size_bytes);
    if (!memory.ok()) {
        packed.reason_ = memory.error().message;
        return packed;
    }
    packed.memory_ = std::move(memory.value());
    packed.memory_.prefer_large_pages();
    pack_all(jobs, packed.memory_.data(), pool, options);
    packed.point_into(jobs, packed.memory_.data());
    packed.outcome_ = PackOutcome::Memory;
    return packed;
}

}  // namespace hearth
