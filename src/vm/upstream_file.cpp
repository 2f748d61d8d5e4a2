// Upstream's model.bin: little endian, dense doubles; every size is checked against the bytes before it is used.
#include <algorithm>
#include <bit>

#include "vm/byte_stream.h"
#include "vm/model_file.h"

namespace hearth::vm {

namespace {

Result<std::vector<double>> doubles(ByteReader& in, std::uint64_t count) {
    if (count > in.left() / 8) return Error{ErrorCode::InvalidModel, "model.bin: matrices larger than the file"};
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& value : values) value = std::bit_cast<double>(TRY(in.u64()));
    return values;
}

Result<std::vector<std::int32_t>> whole_numbers(ByteReader& in, std::uint64_t count) {
    if (count > in.left() / 4) return Error{ErrorCode::InvalidModel, "model.bin: lists longer than the file"};
    std::vector<std::int32_t> values(static_cast<std::size_t>(count));
    for (std::int32_t& value : values) value = static_cast<std::int32_t>(TRY(in.u32()));
    return values;
}

}  // namespace

std::size_t UpstreamModel::non_zero() const {
    std::size_t count = 0;
    for (const Layer& one : layer) {
        for (const std::vector<double>* matrix : {&one.qkv, &one.out, &one.ffn_in, &one.ffn_out}) {
            count += static_cast<std::size_t>(
                std::count_if(matrix->begin(), matrix->end(), [](double w) { return w != 0; }));
        }
    }
    return count;
}

Result<UpstreamModel> read_upstream(std::span<const std::byte> bytes) {
    ByteReader in(bytes, "model.bin");
    UpstreamModel model;
    for (std::uint32_t* size : {&model.vocabulary, &model.width, &model.layers, &model.heads, &model.neurons}) {
        *size = TRY(in.u32());
        if (*size == 0 || *size > 65536) return Error{ErrorCode::InvalidModel, "model.bin: sizes out of range"};
    }
    model.stop = static_cast<std::int32_t>(TRY(in.u32()));
    if (model.stop < 0 || static_cast<std::uint32_t>(model.stop) >= model.vocabulary) {
        return Error{ErrorCode::InvalidModel, "model.bin: the stop token is not in the vocabulary"};
    }
    // Slots 0 to 2 hold the position, the clock and the square.
    if (model.width < 3) return Error{ErrorCode::InvalidModel, "model.bin: too narrow for a position"};
    if (model.heads * 2 != model.width) return Error{ErrorCode::InvalidModel, "model.bin: heads are not two wide"};
    const std::uint64_t width = model.width;
    const std::uint64_t neurons = model.neurons;
    for (std::uint32_t i = 0; i < model.vocabulary; ++i) model.spellings.push_back(TRY(in.text()));
    model.embedding = TRY(doubles(in, model.vocabulary * width));
    for (std::uint32_t i = 0; i < model.layers; ++i) {
        UpstreamModel::Layer layer;
        layer.qkv = TRY(doubles(in, 3 * width * width));
        layer.out = TRY(doubles(in, width * width));
        layer.ffn_in = TRY(doubles(in, 2 * neurons * width));
        layer.ffn_out = TRY(doubles(in, width * neurons));
        model.layer.push_back(std::move(layer));
    }
    model.head = TRY(doubles(in, model.vocabulary * width));
    if (TRY(in.u32()) == 1) {  // slots zeroed after each half layer: the weights subtract them already
        for (std::uint32_t i = 0; i < 2 * model.layers; ++i) TRY(whole_numbers(in, TRY(in.u32())));
    }
    const std::uint64_t all_heads = std::uint64_t{model.layers} * model.heads;
    if (TRY(in.u32()) == 1) model.tie_break = TRY(whole_numbers(in, all_heads));
    if (in.left() > 0 && TRY(in.u32()) == 1) model.head_type = TRY(whole_numbers(in, all_heads));
    if (in.left() != 0) return Error{ErrorCode::InvalidModel, "model.bin: bytes after the end"};
    return model;
}

}  // namespace hearth::vm
