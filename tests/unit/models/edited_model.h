// A golden model with changes: keys set or removed, tensors added, reshaped or retyped. What the refusals are tested
// on.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf_writer.h"
#include "golden/golden_model.h"
#include "models/model.h"

namespace hearth {

class EditedModel {
public:
    explicit EditedModel(std::string_view name) : source_(golden_path(name, ".gguf")) {}

    // Changes metadata after all of the original's has been copied.
    EditedModel& metadata(std::function<void(GgufWriter&)> change) {
        changes_.push_back(std::move(change));
        return *this;
    }
    // Gives the tensor another shape, type or content (zero bytes); one that is not there is added.
    EditedModel& replace(std::string tensor, DType type, Shape shape, float fill = 0) {
        replaced_[std::move(tensor)] = Replacement{type, shape, fill};
        return *this;
    }

    void write(const std::string& path) const {
        const Result<GgufFile> file = GgufFile::open(source_);
        CHECK(file.ok());
        Result<GgufWriter> writer = GgufWriter::create(path);
        CHECK(writer.ok());
        writer->copy_metadata(file.value());
        for (const auto& change : changes_) change(writer.value());
        std::vector<std::vector<std::byte>> contents;
        for (const GgufTensor& tensor : file->tensors()) {
            if (replaced_.contains(std::string(tensor.name))) continue;
            writer->declare_tensor(tensor.name, tensor.view.type, tensor.view.shape);
            contents.emplace_back(tensor.view.data, tensor.view.data + tensor.view.size_bytes());
        }
        for (const auto& [name, replacement] : replaced_) {
            writer->declare_tensor(name, replacement.type, replacement.shape);
            const std::size_t size_bytes = TensorView{replacement.type, replacement.shape, nullptr}.size_bytes();
            std::vector<std::byte> content(size_bytes);
            for (std::size_t at = 0; replacement.fill != 0 && at + sizeof(float) <= size_bytes; at += sizeof(float)) {
                std::memcpy(content.data() + at, &replacement.fill, sizeof(float));
            }
            contents.push_back(std::move(content));
        }
        for (const std::vector<std::byte>& content : contents) CHECK(writer->append(content).ok());
        CHECK(writer->finish().ok());
    }

    // Writes the file, opens it and builds the model.
    Result<ModelInfo> build(const BuildRequest& request = {}) const {
        const std::string path =
            testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".gguf";
        write(path);
        Result<GgufFile> file = GgufFile::open(path);
        CHECK(file.ok());
        Arena arena;
        Graph graph(arena);
        Result<ModelInfo> info = build_model(file.value(), request, graph);
        std::remove(path.c_str());
        return info;
    }

    // The message of the refusal; empty, with a failed test, when the model was not refused.
    std::string refusal() const {
        const Result<ModelInfo> info = build();
        EXPECT_FALSE(info.ok()) << "the model was built";
        if (info.ok()) return "";
        EXPECT_EQ(info.error().code, ErrorCode::InvalidModel);
        return info.error().message;
    }

private:
    struct Replacement {
        DType type;
        Shape shape;
        float fill;
    };

    std::string source_;
    std::vector<std::function<void(GgufWriter&)>> changes_;
    std::map<std::string, Replacement> replaced_;
};

}  // namespace hearth
