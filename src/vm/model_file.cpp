#include "vm/model_file.h"

#include <algorithm>
#include <array>

#include "vm/byte_stream.h"

namespace hearth::vm {

namespace {

constexpr std::array<std::uint8_t, 8> kMagic = {'H', 'E', 'A', 'R', 'T', 'H', 'T', 'F'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kMaxWidth = 65536;

void put(ByteWriter& out, const Row& row) {
    out.u32(static_cast<std::uint32_t>(row.size()));
    for (const Weight& weight : row) {
        out.u32(weight.slot);
        out.u64(static_cast<std::uint64_t>(weight.factor));
    }
}

// Rows name slots below `width`, ascending.
Result<Row> get(ByteReader& in, std::uint32_t width) {
    const std::size_t count = TRY(in.count(12));
    Row row;
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t slot = TRY(in.u32());
        const std::int64_t factor = static_cast<std::int64_t>(TRY(in.u64()));
        if (slot >= width || factor == 0 || (!row.empty() && row.back().slot >= slot)) {
            return Error{ErrorCode::InvalidModel, "model: a row that is out of order or names no slot"};
        }
        row.push_back({slot, factor});
    }
    return row;
}

Result<Head> get_head(ByteReader& in, std::uint32_t width) {
    Head head;
    head.name = TRY(in.text());
    for (Row* row : {&head.query_x, &head.query_y, &head.key_x, &head.key_y}) *row = TRY(get(in, width));
    for (std::size_t i = 0; i < 2; ++i) {
        head.value[i] = TRY(get(in, width));
        head.out[i] = TRY(get(in, width));
    }
    const std::uint32_t tie = TRY(in.u32());
    if (tie > static_cast<std::uint32_t>(Tie::Average))
        return Error{ErrorCode::InvalidModel, "model: unknown tie rule"};
    head.tie = static_cast<Tie>(tie);
    head.group = static_cast<std::int32_t>(TRY(in.u32()));
    head.key = TRY(get(in, width));
    head.member = TRY(get(in, width));
    return head;
}

}  // namespace

std::vector<std::byte> write_model(const Model& model) {
    ByteWriter out;
    for (const std::uint8_t byte : kMagic) out.u8(byte);
    out.u32(kVersion);
    for (const std::uint32_t value : {model.width, model.position_slot, model.square_slot}) out.u32(value);
    out.u32(static_cast<std::uint32_t>(model.embedding.size()));
    for (std::size_t i = 0; i < model.embedding.size(); ++i) {
        put(out, model.embedding[i]);
        put(out, model.logits[i]);
    }
    out.u32(static_cast<std::uint32_t>(model.layers.size()));
    for (const Layer& layer : model.layers) {
        out.u32(static_cast<std::uint32_t>(layer.heads.size()));
        for (const Head& head : layer.heads) {
            out.text(head.name);
            for (const Row* row : {&head.query_x, &head.query_y, &head.key_x, &head.key_y}) put(out, *row);
            for (std::size_t i = 0; i < 2; ++i) {
                put(out, head.value[i]);
                put(out, head.out[i]);
            }
            out.u32(static_cast<std::uint32_t>(head.tie));
            out.u32(static_cast<std::uint32_t>(head.group));
            put(out, head.key);
            put(out, head.member);
        }
        out.u32(static_cast<std::uint32_t>(layer.neurons.size()));
        for (const Neuron& neuron : layer.neurons) {
            out.text(neuron.name);
            put(out, neuron.gate);
            put(out, neuron.value);
            put(out, neuron.out);
        }
    }
    out.u32(static_cast<std::uint32_t>(model.uses.size()));
    for (const SlotUse& use : model.uses) {
        out.text(use.name);
        out.u32(static_cast<std::uint32_t>(use.first_half));
        out.u32(static_cast<std::uint32_t>(use.last_half));
        out.u32(use.slot);
        out.u64(static_cast<std::uint64_t>(use.range.low));
        out.u64(static_cast<std::uint64_t>(use.range.high));
    }
    return out.take();
}

bool is_model_file(std::span<const std::byte> bytes) {
    return bytes.size() >= kMagic.size() &&
           std::equal(kMagic.begin(), kMagic.end(), bytes.begin(),
                      [](std::uint8_t a, std::byte b) { return a == static_cast<std::uint8_t>(b); });
}

Result<Model> read_model(std::span<const std::byte> bytes) {
    const auto bad = [](std::string_view what) {
        return Error{ErrorCode::InvalidModel, "model: " + std::string(what)};
    };
    if (!is_model_file(bytes)) return bad("not a model of the vm");
    ByteReader in(bytes.subspan(kMagic.size()), "model");
    if (TRY(in.u32()) != kVersion) return bad("unknown version of the format");
    Model model;
    model.width = TRY(in.u32());
    model.position_slot = TRY(in.u32());
    model.square_slot = TRY(in.u32());
    if (model.width > kMaxWidth || model.position_slot >= model.width || model.square_slot >= model.width) {
        return bad("slots out of range");
    }
    if (TRY(in.u32()) != token::kCount) return bad("made for another vocabulary");
    for (std::size_t i = 0; i < token::kCount; ++i) {
        model.embedding.push_back(TRY(get(in, model.width)));
        model.logits.push_back(TRY(get(in, model.width)));
    }
    const std::size_t layers = TRY(in.count(8));
    for (std::size_t l = 0; l < layers; ++l) {
        Layer layer;
        const std::size_t heads = TRY(in.count(60));
        for (std::size_t i = 0; i < heads; ++i) layer.heads.push_back(TRY(get_head(in, model.width)));
        const std::size_t neurons = TRY(in.count(16));
        for (std::size_t i = 0; i < neurons; ++i) {
            Neuron neuron;
            neuron.name = TRY(in.text());
            neuron.gate = TRY(get(in, model.width));
            neuron.value = TRY(get(in, model.width));
            neuron.out = TRY(get(in, model.width));
            layer.neurons.push_back(std::move(neuron));
        }
        model.head_count = std::max(model.head_count, static_cast<std::uint32_t>(heads));
        model.neuron_count = std::max(model.neuron_count, static_cast<std::uint32_t>(neurons));
        model.layers.push_back(std::move(layer));
    }
    const std::size_t uses = TRY(in.count(32));
    for (std::size_t i = 0; i < uses; ++i) {
        SlotUse use;
        use.name = TRY(in.text());
        use.first_half = static_cast<int>(TRY(in.u32()));
        use.last_half = static_cast<int>(TRY(in.u32()));
        use.slot = TRY(in.u32());
        use.range.low = static_cast<std::int64_t>(TRY(in.u64()));
        use.range.high = static_cast<std::int64_t>(TRY(in.u64()));
        if (use.slot >= model.width) return bad("slots out of range");
        model.uses.push_back(std::move(use));
    }
    if (in.left() != 0) return bad("bytes after the end");
    for (std::size_t l = 0; l < model.layers.size(); ++l) {
        for (std::size_t i = 0; i < model.layers[l].heads.size(); ++i) {
            const Classification found = classify_head(model, l, i);
            model.layers[l].heads[i].kind = found.kind;
            model.layers[l].heads[i].proof = found.proof;
        }
    }
    return model;
}

}  // namespace hearth::vm
