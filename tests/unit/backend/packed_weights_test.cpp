// Packed weights on disk: used again when they fit, made again when anything about them is wrong.
#include "backend/cpu/packed_weights.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backend/cpu/pack_file.h"
#include "base/rng.h"

namespace hearth {
namespace {

// Three quantised matrices, the last of few columns; one of halves, which only some CPUs pack; and two that stay as
// they are: floats, and halves whose columns do not fill the blocks of any panel.
class PackedWeightsTest : public ::testing::Test {
protected:
    PackedWeightsTest() {
        folder_ = std::filesystem::temp_directory_path() / ("hearth_pack_" + std::to_string(::getpid()));
        std::filesystem::create_directories(folder_);
        file_ = (folder_ / "model.pack").string();
        Handle x = graph_.embed(weight(DType::F32, 256, 10));
        const Handle a = graph_.matmul(x, first_ = weight(DType::Q4_0, 256, kRows));
        const Handle b = graph_.matmul(x, second_ = weight(DType::Q6_K, 256, kRows));
        x = graph_.matmul(graph_.gate(Activation::Silu, a, b), half_ = weight(DType::F16, kRows, 64));
        x = graph_.matmul(x, float_ = weight(DType::F32, 64, 24));
        x = graph_.matmul(x, ragged_ = weight(DType::F16, 24, 96));
        graph_.set_logits(graph_.matmul(x, third_ = weight(DType::Q8_0, 96, 10)));
        plan_ = Plan::compile(graph_, {4, 1}).value();
    }
    ~PackedWeightsTest() override { std::filesystem::remove_all(folder_); }

    Handle weight(DType type, std::size_t columns, std::size_t rows) {
        auto bytes = std::make_unique<std::vector<std::byte>>(row_bytes(type, columns) * rows);
        for (std::size_t i = 0; i < bytes->size(); i += 8) {
            const std::uint64_t bits = random_bits(7, i) & 0x3f3f3f3f3f3f3f3fu;
            std::memcpy(bytes->data() + i, &bits, std::min<std::size_t>(8, bytes->size() - i));
        }
        storage_.push_back(std::move(bytes));
        return graph_.weight({type, Shape{{columns, rows, 1, 1}}, storage_.back()->data()});
    }

    PackOptions options(std::uint64_t source = 1) const {
        PackOptions options;
        options.mode = PackMode::Auto;
        options.file = file_;
        options.source = source;
        return options;
    }
    PackedWeights create(const PackOptions& options) {
        return PackedWeights::create(plan_, *find_kernels(""), pool_, options);
    }
    bool can_pack() const { return !find_kernels("")->panel_layout.empty(); }

    std::vector<std::byte> panels(const PackedWeights& packed, Handle constant) const {
        const PackedMatrix* matrix = packed.find(constant);
        const std::size_t rows = arena_.constant(constant).shape.rows();
        const std::size_t count = (rows + matrix->panel_rows - 1) / matrix->panel_rows;
        return {matrix->panels, matrix->panels + count * matrix->panel_bytes};
    }

    std::set<std::string> files_left() const {
        std::set<std::string> names;
        for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.insert(entry.path().filename());
        return names;
    }

    void flip_byte(std::uintmax_t at) const {
        std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(static_cast<std::streamoff>(at));
        const char old = static_cast<char>(file.get());
        file.seekp(static_cast<std::streamoff>(at));
        file.put(static_cast<char>(old ^ 1));
    }

    static constexpr std::size_t kRows = 131072;  // large enough for a file
    Arena arena_;
    Graph graph_{arena_};
    Plan plan_;
    Handle first_;
    Handle second_;
    Handle third_;
    Handle half_;
    Handle float_;
    Handle ragged_;
    ThreadPool pool_{2};
    std::filesystem::path folder_;
    std::string file_;
    std::vector<std::unique_ptr<std::vector<std::byte>>> storage_;
};

TEST_F(PackedWeightsTest, AFileIsWrittenOnceAndMappedFromThenOn) {
    if (!can_pack()) GTEST_SKIP() << "this CPU's kernels read rows as they are";
    const PackedWeights memory = create({.mode = PackMode::Memory});
    EXPECT_EQ(memory.outcome(), PackOutcome::Memory);
    const PackedWeights written = create(options());
    EXPECT_EQ(written.outcome(), PackOutcome::FileWritten) << written.reason();
    const PackedWeights mapped = create(options());
    EXPECT_EQ(mapped.outcome(), PackOutcome::FileMapped) << mapped.reason();
    std::vector<Handle> expected = {first_, second_, third_};
    const bool packs_halves = find_kernels("")->panels[static_cast<std::size_t>(DType::F16)].rows != 0;
    if (packs_halves) expected.push_back(half_);
    for (const Handle constant : expected) {
        ASSERT_NE(mapped.find(constant), nullptr);
        EXPECT_EQ(panels(memory, constant), panels(written, constant));
        EXPECT_EQ(panels(memory, constant), panels(mapped, constant));
    }
    EXPECT_EQ(mapped.find(half_) != nullptr, packs_halves);
    EXPECT_EQ(mapped.find(float_), nullptr);
    EXPECT_EQ(mapped.find(ragged_), nullptr);
    EXPECT_EQ(files_left(), (std::set<std::string>{"model.pack", "model.pack.whole"}));  // and no temporary
}

TEST_F(PackedWeightsTest, AFileIsReadAgainOnlyWhenItChangedOrTheMachineStartedAnew) {
    if (!can_pack()) GTEST_SKIP() << "this CPU's kernels read rows as they are";
    create(options());
    const std::uintmax_t middle = std::filesystem::file_size(file_) / 2;
    const std::string note = file_ + ".whole";

    // Damage that is noted as none is not found: the file is not read.
    flip_byte(middle);
    note_whole(file_, MappedFile::open(file_).value(), "");
    EXPECT_EQ(create(options()).outcome(), PackOutcome::FileMapped);

    // The same damage with the note of another start.
    const std::string content = read_file(note, 1024).value();
    ASSERT_NE(content.find('-'), std::string::npos);
    std::ofstream(note) << std::string(content).replace(content.find('-'), 1, "+");
    EXPECT_EQ(create(options()).outcome(), PackOutcome::FileWritten);
    EXPECT_EQ(create(options()).outcome(), PackOutcome::FileMapped);

    // With a note cut short or none.
    for (const std::string& left : {read_file(note, 1024).value().substr(0, 40), std::string()}) {
        flip_byte(middle);
        note_whole(file_, MappedFile::open(file_).value(), "");
        std::ofstream(note) << left;
        EXPECT_EQ(create(options()).outcome(), PackOutcome::FileWritten);
    }

    // A change shows even where the time of the content is set back.
    const auto time = std::filesystem::last_write_time(file_);
    flip_byte(middle);
    std::filesystem::last_write_time(file_, time);
    EXPECT_EQ(create(options()).outcome(), PackOutcome::FileWritten);
}

TEST_F(PackedWeightsTest, AStaleDamagedOrCutFileIsMadeAgain) {
    if (!can_pack()) GTEST_SKIP() << "this CPU's kernels read rows as they are";
    const PackedWeights first = create(options());
    const std::vector<std::byte> right = panels(first, second_);
    const std::uintmax_t size = std::filesystem::file_size(file_);

    EXPECT_EQ(create(options(2)).outcome(), PackOutcome::FileWritten);  // another model
    EXPECT_EQ(create(options(1)).outcome(), PackOutcome::FileWritten);
    for (const std::uintmax_t at : {std::uintmax_t{0}, std::uintmax_t{9}, std::uintmax_t{70}, size / 3, size - 4097}) {
        flip_byte(at);
        const PackedWeights again = create(options());
        EXPECT_EQ(again.outcome(), PackOutcome::FileWritten) << "byte " << at;
        EXPECT_EQ(panels(again, second_), right);
        EXPECT_EQ(create(options()).outcome(), PackOutcome::FileMapped);
    }
    for (const std::uintmax_t cut : {std::uintmax_t{0}, std::uintmax_t{10}, size - 4096}) {
        std::filesystem::resize_file(file_, cut);
        EXPECT_EQ(create(options()).outcome(), PackOutcome::FileWritten) << "cut to " << cut;
    }
}

TEST_F(PackedWeightsTest, AFileThatAnotherIsMakingIsWaitedForAndShared) {
    if (!can_pack()) GTEST_SKIP() << "this CPU's kernels read rows as they are";
    std::ofstream(file_ + ".tmp") << "left by a process that was killed";
    std::array<PackOutcome, 4> outcomes{};
    std::vector<std::thread> starts;
    for (PackOutcome& outcome : outcomes) {
        starts.emplace_back([this, &outcome] {
            ThreadPool pool(1);
            outcome = PackedWeights::create(plan_, *find_kernels(""), pool, options()).outcome();
        });
    }
    for (std::thread& start : starts) start.join();
    EXPECT_EQ(std::ranges::count(outcomes, PackOutcome::FileWritten), 1);
    EXPECT_EQ(std::ranges::count(outcomes, PackOutcome::FileMapped), 3);
    EXPECT_FALSE(std::filesystem::exists(file_ + ".tmp"));
}

TEST_F(PackedWeightsTest, OneThatTakesTooLongIsNotWaitedFor) {
    if (!can_pack()) GTEST_SKIP() << "this CPU's kernels read rows as they are";
    const Result<FileLock> stuck = lock_pack_file(file_, {});
    ASSERT_TRUE(stuck.ok());
    PackOptions hasty = options();
    hasty.patience = std::chrono::milliseconds(1);
    const PackedWeights packed = create(hasty);
    EXPECT_EQ(packed.outcome(), PackOutcome::Memory);
    EXPECT_NE(packed.reason().find("another process"), std::string::npos) << packed.reason();
    EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(PackedWeightsTest, FilesOfModelsThatAreGoneAreRemovedWhenAnotherIsMade) {
    if (!can_pack()) GTEST_SKIP() << "this CPU's kernels read rows as they are";
    const auto pack = [&](const std::string& name) {
        PackOptions named = options();
        named.file = (folder_ / (name + ".pack")).string();
        named.model = (folder_ / (name + ".gguf")).string();
        std::ofstream(named.model) << "a model";
        return create(named).outcome();
    };
    EXPECT_EQ(pack("kept"), PackOutcome::FileWritten);
    EXPECT_EQ(pack("lost"), PackOutcome::FileWritten);
    EXPECT_EQ(pack("held"), PackOutcome::FileWritten);
    std::ofstream(folder_ / "lost.pack.tmp") << "left by a process that was killed";
    std::ofstream(folder_ / "cut.pack.whole") << "found whole since";
    std::filesystem::remove(folder_ / "lost.gguf");
    std::filesystem::remove(folder_ / "held.gguf");
    const Result<FileLock> maker = lock_pack_file((folder_ / "held.pack").string(), {});
    ASSERT_TRUE(maker.ok());

    EXPECT_EQ(pack("kept"), PackOutcome::FileMapped);
    EXPECT_TRUE(std::filesystem::exists(folder_ / "lost.pack"));  // a start that makes nothing looks for nothing
    EXPECT_EQ(pack("new"), PackOutcome::FileWritten);
    EXPECT_EQ(files_left(),
              (std::set<std::string>{"cut.pack.whole", "held.pack", "held.pack.whole", "kept.gguf", "kept.pack",
                                     "kept.pack.whole", "new.gguf", "new.pack", "new.pack.whole"}));
}

TEST_F(PackedWeightsTest, WithoutAPlaceForAFileTheCopyIsInMemoryAndSaysWhy) {
    if (!can_pack()) GTEST_SKIP() << "this CPU's kernels read rows as they are";
    PackOptions nowhere = options();
    nowhere.file = (folder_ / "missing" / "model.pack").string();
    const PackedWeights packed = create(nowhere);
    EXPECT_EQ(packed.outcome(), PackOutcome::Memory);
    EXPECT_NE(packed.reason().find("missing"), std::string::npos);
}

TEST_F(PackedWeightsTest, WithoutMemoryTheRowsAreUsedAsTheyAre) {
    PackOptions poor{.mode = PackMode::Memory};
    poor.memory_available = 4096;
    const PackedWeights packed = create(poor);
    EXPECT_EQ(packed.outcome(), PackOutcome::Unpacked);
    EXPECT_EQ(packed.find(first_), nullptr);
    EXPECT_EQ(packed.reason().empty(), !can_pack());
    EXPECT_EQ(create({.mode = PackMode::Off}).outcome(), PackOutcome::Unpacked);
}

TEST_F(PackedWeightsTest, ReportsProgressAndWhatMayBeReleased) {
    if (!can_pack()) GTEST_SKIP() << "this CPU's kernels read rows as they are";
    PackOptions told{.mode = PackMode::Memory};
    std::size_t last = 0;
    std::size_t total = 0;
    std::atomic<std::size_t> released{0};
    told.progress = [&](std::size_t done, std::size_t all) {
        EXPECT_GT(done, last);
        last = done;
        total = all;
    };
    told.release = [&](std::span<const std::byte> bytes) { released += bytes.size(); };
    const PackedWeights packed = create(told);
    EXPECT_EQ(last, total);
    EXPECT_EQ(total, packed.size_bytes());
    EXPECT_GT(released.load(), row_bytes(DType::Q4_0, 256 * kRows));
}

}  // namespace
}  // namespace hearth
