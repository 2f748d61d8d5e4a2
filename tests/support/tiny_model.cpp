#include "support/tiny_model.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "gguf/gguf_writer.h"
#include "tensor/codec.h"

namespace hearth::test {

namespace {

class Folder {
public:
    Folder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "hearth-test-XXXXXX").string();
        if (::mkdtemp(pattern.data()) == nullptr) std::abort();
        path = pattern;
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
    std::string path;
};

// <unk>, <s>, </s>, the 256 bytes, and the letters with and without a space before them.
struct Vocabulary {
    std::vector<std::string> texts{"<unk>", "<s>", "</s>"};
    std::vector<std::int32_t> types{2, 3, 3};
    std::vector<float> scores{0, 0, 0};

    explicit Vocabulary(std::size_t at_least) {
        for (int byte = 0; byte < 256; ++byte) {
            char text[8];
            std::snprintf(text, sizeof text, "<0x%02X>", static_cast<unsigned>(byte));
            add(text, 6);
        }
        add("\xe2\x96\x81", 1);
        for (char letter = 'a'; letter <= 'z'; ++letter) {
            add(std::string(1, letter), 1);
            add("\xe2\x96\x81" + std::string(1, letter), 1);
        }
        while (texts.size() < at_least) add("word" + std::to_string(texts.size()), 1);
    }
    void add(std::string text, std::int32_t type) {
        scores.push_back(type == 6 ? 0.0f : -static_cast<float>(texts.size()));
        texts.push_back(std::move(text));
        types.push_back(type);
    }
};

struct PlannedTensor {
    std::string name;
    DType type;
    std::size_t columns;
    std::size_t rows;
};

std::vector<PlannedTensor> plan_tensors(const TinyModelOptions& o, std::size_t vocabulary) {
    const std::size_t kv_dim = o.dim / o.heads * o.kv_heads;
    std::vector<PlannedTensor> tensors{{"token_embd.weight", o.type, o.dim, vocabulary},
                                       {"output_norm.weight", DType::F32, o.dim, 1}};
    for (std::size_t layer = 0; layer < o.layers; ++layer) {
        const std::string prefix = "blk." + std::to_string(layer) + ".";
        tensors.push_back({prefix + "attn_norm.weight", DType::F32, o.dim, 1});
        tensors.push_back({prefix + "attn_q.weight", o.type, o.dim, o.dim});
        tensors.push_back({prefix + "attn_k.weight", o.type, o.dim, kv_dim});
        tensors.push_back({prefix + "attn_v.weight", o.type, o.dim, kv_dim});
        tensors.push_back({prefix + "attn_output.weight", o.type, o.dim, o.dim});
        tensors.push_back({prefix + "ffn_norm.weight", DType::F32, o.dim, 1});
        tensors.push_back({prefix + "ffn_gate.weight", o.type, o.dim, o.ffn_dim});
        tensors.push_back({prefix + "ffn_up.weight", o.type, o.dim, o.ffn_dim});
        tensors.push_back({prefix + "ffn_down.weight", o.type, o.ffn_dim, o.dim});
    }
    return tensors;
}

void write_metadata(GgufWriter& writer, const TinyModelOptions& o, const Vocabulary& vocabulary) {
    const auto count = [](std::size_t value) { return static_cast<std::uint32_t>(value); };
    writer.set_string("general.architecture", "llama");
    writer.set_string("general.name", "tiny");
    writer.set_u32("llama.block_count", count(o.layers));
    writer.set_u32("llama.context_length", count(o.context));
    writer.set_u32("llama.embedding_length", count(o.dim));
    writer.set_u32("llama.feed_forward_length", count(o.ffn_dim));
    writer.set_u32("llama.attention.head_count", count(o.heads));
    writer.set_u32("llama.attention.head_count_kv", count(o.kv_heads));
    writer.set_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    writer.set_f32("llama.rope.freq_base", 10000.0f);
    const std::vector<std::string_view> texts(vocabulary.texts.begin(), vocabulary.texts.end());
    writer.set_string("tokenizer.ggml.model", "llama");
    writer.set_strings("tokenizer.ggml.tokens", texts);
    writer.set_floats("tokenizer.ggml.scores", vocabulary.scores);
    writer.set_integers("tokenizer.ggml.token_type", vocabulary.types);
    writer.set_u32("tokenizer.ggml.bos_token_id", 1);
    writer.set_u32("tokenizer.ggml.eos_token_id", 2);
}

}  // namespace

const std::string& temporary_folder() {
    static const Folder folder;
    return folder.path;
}

std::string write_tiny_model(const std::string& name, const TinyModelOptions& options) {
    const Vocabulary vocabulary(options.vocabulary);
    const std::string path = temporary_folder() + "/" + name + ".gguf";
    GgufWriter writer = GgufWriter::create(path).value();
    write_metadata(writer, options, vocabulary);
    const std::vector<PlannedTensor> tensors = plan_tensors(options, vocabulary.texts.size());
    for (const PlannedTensor& tensor : tensors) {
        writer.declare_tensor(tensor.name, tensor.type, Shape{{tensor.columns, tensor.rows, 1, 1}});
    }
    std::mt19937 random(options.seed);
    for (const PlannedTensor& tensor : tensors) {
        // Uniform, from integers: the same weights on every machine, whatever its C library.
        const bool norm = tensor.rows == 1;
        const double middle = norm ? 1.0 : 0.0;
        const double width = norm ? 0.2 : 3.0 / std::sqrt(static_cast<double>(tensor.columns));
        std::vector<float> row(tensor.columns);
        std::vector<std::byte> encoded(row_bytes(tensor.type, tensor.columns));
        for (std::size_t i = 0; i < tensor.rows; ++i) {
            for (float& value : row)
                value = static_cast<float>(middle + width * (static_cast<double>(random()) * 0x1p-32 - 0.5));
            CHECK(encode_row(tensor.type, row, {}, encoded.data()).ok());
            if (options.nan_weight && tensor.name == "output_norm.weight") {
                const float nan = std::numeric_limits<float>::quiet_NaN();
                std::memcpy(encoded.data(), &nan, sizeof nan);
            }
            CHECK(writer.append(encoded).ok());
        }
    }
    CHECK(writer.finish().ok());
    return path;
}

}  // namespace hearth::test
