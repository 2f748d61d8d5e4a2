// The rules of the mixes, then the conversion: rows are decoded, encoded and written a chunk at a time.
#include "gguf/quantize.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <new>
#include <optional>

#include "gguf/gguf_writer.h"
#include "tensor/codec.h"

namespace hearth {

namespace {

constexpr std::uint32_t kQuantizationVersion = 2;  // of the block layouts, as GGUF counts them
constexpr std::size_t kChunkElements = std::size_t{1} << 22;
constexpr std::size_t kSliceElements = std::size_t{1} << 16;

struct Mix {
    std::string_view name;
    std::uint32_t file_type;  // the value of general.file_type
    DType base;
};

constexpr Mix kMixes[] = {
    {"Q4_0", 2, DType::Q4_0},  {"Q4_K_S", 14, DType::Q4_K}, {"Q4_K_M", 15, DType::Q4_K}, {"Q4_1", 3, DType::Q4_1},
    {"Q5_0", 8, DType::Q5_0},  {"Q5_K_S", 16, DType::Q5_K}, {"Q5_K_M", 17, DType::Q5_K}, {"Q5_1", 9, DType::Q5_1},
    {"Q6_K", 18, DType::Q6_K}, {"Q8_0", 7, DType::Q8_0},    {"F16", 1, DType::F16},      {"BF16", 32, DType::BF16},
    {"F32", 0, DType::F32},
};

Result<Mix> find_mix(std::string_view name) {
    const auto same = [](char a, char b) { return a == (b >= 'a' && b <= 'z' ? static_cast<char>(b - 'a' + 'A') : b); };
    std::string known;
    for (const Mix& mix : kMixes) {
        if (std::ranges::equal(mix.name, name, same)) return mix;
        known += (known.empty() ? "" : ", ") + std::string(mix.name);
    }
    return Error{ErrorCode::Usage, "no such quantisation: '" + std::string(name) + "' (known: " + known + ")"};
}

bool contains(std::string_view name, std::string_view part) {
    return name.find(part) != std::string_view::npos;
}

// Small matrices whose rounding costs more than their bytes save, and tables that are looked up rather than multiplied.
bool is_quantised(const GgufTensor& tensor) {
    constexpr std::string_view kKept[] = {
        "_norm.weight",         "ffn_gate_inp.weight", "altup",          "laurel",
        "per_layer_model_proj", "ssm_conv1d",          "shortconv.conv", "attn_rel_b.weight",
        "position_embd",        "token_types.weight",  ".patch_embd",    ".rel_pos",
    };
    if (tensor.view.shape.rows() < 2 || !tensor.name.ends_with("weight")) return false;
    return std::ranges::none_of(kKept, [&](std::string_view part) { return contains(tensor.name, part); });
}

// N of "blk.N.", or nothing.
std::optional<std::uint32_t> layer_of(std::string_view name) {
    constexpr std::string_view kPrefix = "blk.";
    if (!name.starts_with(kPrefix)) return std::nullopt;
    std::uint32_t layer = 0;
    const char* end = name.data() + name.size();
    const auto [stop, fault] = std::from_chars(name.data() + kPrefix.size(), end, layer);
    if (fault != std::errc() || stop == end || *stop != '.') return std::nullopt;
    return layer;
}

// The value matrix, alone or inside a fused one: the part of attention that suffers most from rounding.
bool is_attention_value(std::string_view name) {
    return contains(name, "attn_v.weight") || contains(name, "attn_qkv.weight") || contains(name, "attn_kv_b.weight");
}

// The layers that get more bits: the first and last eighth, and every third between.
bool wants_more_bits(std::uint64_t place, std::uint64_t count) {
    return place < count / 8 || place >= 7 * count / 8 || (place - count / 8) % 3 == 2;
}

// What the rules of a mix need to know about the whole model.
struct Model {
    std::uint32_t layer_count = 0;
    std::uint32_t expert_count = 0;
    bool has_output = false;                  // otherwise the token embedding is the output matrix too
    std::vector<std::uint32_t> value_layers;  // the layers with an attention value matrix, ascending

    std::uint64_t value_place(std::uint32_t layer) const {
        return static_cast<std::uint64_t>(std::ranges::lower_bound(value_layers, layer) - value_layers.begin());
    }
};

Result<Model> survey(const GgufFile& in) {
    Model model;
    const std::optional<std::string_view> architecture = TRY(in.find_string("general.architecture"));
    if (architecture) {
        const std::string prefix = std::string(*architecture) + ".";
        model.layer_count = TRY(in.find_u32(prefix + "block_count")).value_or(0);
        model.expert_count = TRY(in.find_u32(prefix + "expert_count")).value_or(0);
    }
    for (const GgufTensor& tensor : in.tensors()) {
        if (tensor.name == "output.weight") model.has_output = true;
        const std::optional<std::uint32_t> layer = layer_of(tensor.name);
        if (layer && is_attention_value(tensor.name)) model.value_layers.push_back(*layer);
    }
    std::ranges::sort(model.value_layers);
    return model;
}

DType value_type(const Mix& mix, const Model& model, std::uint32_t layer) {
    const std::uint64_t place = model.value_place(layer);
    const bool more = wants_more_bits(place, model.value_layers.size());
    if (model.expert_count == 8) return DType::Q8_0;  // tiny beside eight experts
    if ((mix.name == "Q4_K_M" || mix.name == "Q5_K_M") && more) return DType::Q6_K;
    if (mix.name == "Q4_K_S" && place < 4) return DType::Q5_K;
    // With 80 layers eight heads share one value matrix: cheap to keep better.
    if (mix.base == DType::Q4_K && model.layer_count == 80) return DType::Q5_K;
    return mix.base;
}

DType down_type(const Mix& mix, const Model& model, std::uint32_t layer, bool has_importance) {
    const bool first_eighth = layer < model.layer_count / 8;
    if ((mix.name == "Q4_K_M" || mix.name == "Q5_K_M") && wants_more_bits(layer, model.layer_count)) return DType::Q6_K;
    if (mix.name == "Q4_K_S" && first_eighth) return DType::Q5_K;
    // Offsets go wrong here without importance data, and help with it.
    if (mix.base == DType::Q4_0 && has_importance && first_eighth) return DType::Q4_1;
    if (mix.base == DType::Q5_0 && has_importance && first_eighth) return DType::Q5_1;
    return mix.base;
}

DType mixed_type(const Mix& mix, const Model& model, const GgufTensor& tensor, bool has_importance) {
    const std::string_view name = tensor.name;
    const bool is_embedding = name == "token_embd.weight" || name == "per_layer_token_embd.weight";
    if (name == "output.weight" || (is_embedding && !model.has_output)) {
        const bool fits = tensor.view.shape.columns() % traits(mix.base).block_elements == 0;
        return mix.base == DType::Q8_0 || !fits ? DType::Q8_0 : DType::Q6_K;
    }
    const std::optional<std::uint32_t> layer = layer_of(name);
    if (!layer) return mix.base;
    if (is_attention_value(name)) return value_type(mix, model, *layer);
    if (contains(name, "ffn_down")) return down_type(mix, model, *layer, has_importance);
    if (model.expert_count == 8 && contains(name, "attn_k.weight")) return DType::Q8_0;
    if (model.expert_count == 8 && contains(name, "attn_output.weight") && mix.base == DType::Q4_K) return DType::Q5_K;
    return mix.base;
}

// A type whose blocks divide the row, of at least the quality asked for.
DType fitting_type(DType wanted, std::size_t columns) {
    if (columns % traits(wanted).block_elements == 0) return wanted;
    DType next = DType::F16;
    if (wanted == DType::Q4_K) next = DType::Q5_0;
    if (wanted == DType::Q5_K) next = DType::Q5_1;
    if (wanted == DType::Q6_K) next = DType::Q8_0;
    return columns % traits(next).block_elements == 0 ? next : DType::F16;
}

struct Choice {
    DType type;
    DType wanted;  // differs where the blocks of the wanted type do not divide the rows
};

Result<std::vector<Choice>> choose_types(const GgufFile& in, const QuantizeOptions& options) {
    const Mix mix = TRY(find_mix(options.mix));
    const Model model = TRY(survey(in));
    const bool plain = traits(mix.base).block_elements == 1;
    std::vector<Choice> choices;
    choices.reserve(in.tensors().size());
    for (const GgufTensor& tensor : in.tensors()) {
        if (!is_quantised(tensor)) {
            choices.push_back({tensor.view.type, tensor.view.type});
        } else if (plain) {
            choices.push_back({mix.base, mix.base});
        } else {
            const DType wanted = mixed_type(mix, model, tensor, options.importance != nullptr);
            choices.push_back({fitting_type(wanted, tensor.view.shape.columns()), wanted});
        }
    }
    return choices;
}

Error tensor_error(const GgufFile& in, std::string_view tensor, const std::string& what) {
    return Error{ErrorCode::InvalidModel, in.name() + ": tensor '" + std::string(tensor) + "': " + what};
}

// The rows of one tensor as floats and back as blocks, a chunk at a time so that memory stays small.
Status write_converted(const GgufFile& in, const GgufTensor& tensor, DType to, std::span<const float> importance,
                       const ParallelFor& parallel, GgufWriter& writer) {
    const TensorView& view = tensor.view;
    const std::size_t columns = view.shape.columns();
    const std::size_t rows = view.shape.rows();
    const std::size_t bytes = row_bytes(to, columns);
    const std::size_t slice_rows = std::max<std::size_t>(1, kSliceElements / columns);
    const std::size_t chunk_rows = slice_rows * std::max<std::size_t>(1, kChunkElements / (slice_rows * columns));
    std::vector<std::byte> encoded(std::min(rows, chunk_rows) * bytes);
    std::vector<std::optional<Error>> faults;

    for (std::size_t first = 0; first < rows; first += chunk_rows) {
        const std::size_t count = std::min(chunk_rows, rows - first);
        faults.assign((count + slice_rows - 1) / slice_rows, std::nullopt);
        const auto convert = [&](std::size_t slice) {
            std::vector<float> values(columns);
            const std::size_t end = std::min((slice + 1) * slice_rows, count);
            for (std::size_t row = slice * slice_rows; row < end; ++row) {
                const std::size_t expert = (first + row) / view.shape.extent[1] % view.shape.extent[2];
                decode_row(view.type, view.row(first + row), values);
                const Status status = encode_row(
                    to, values, importance.empty() ? importance : importance.subspan(expert * columns, columns),
                    encoded.data() + row * bytes);
                if (status.ok()) continue;
                faults[slice] =
                    tensor_error(in, tensor.name, "row " + std::to_string(first + row) + ": " + status.error().message);
                return;
            }
        };
        std::atomic<bool> out_of_memory = false;
        const auto work = [&](std::size_t slice) {  // on threads that let no exception pass
            try {
                convert(slice);
            } catch (const std::bad_alloc&) {
                out_of_memory = true;
            }
        };
        if (parallel) {
            parallel(faults.size(), work);
        } else {
            for (std::size_t slice = 0; slice < faults.size(); ++slice) work(slice);
        }
        if (out_of_memory) return Error{ErrorCode::OutOfResources, "out of memory"};
        for (const std::optional<Error>& fault : faults) {
            if (fault) return *fault;
        }
        TRY(writer.append(std::span(encoded).first(count * bytes)));
    }
    return {};
}

bool same_file(const std::string& a, const std::string& b) {
    struct stat first {};
    struct stat second {};
    return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

// Whether `path` is the file `in` was opened from, or another part of the same split model.
bool is_input(const GgufFile& in, const std::string& path) {
    if (same_file(in.name(), path)) return true;
    constexpr std::size_t kTail = std::string_view("-00001-of-00005.gguf").size();
    if (in.part_count() < 2 || in.name().size() < kTail) return false;
    std::string part = in.name();
    for (std::size_t number = 1; number <= in.part_count(); ++number) {
        char digits[8];
        std::snprintf(digits, sizeof digits, "%05u", static_cast<unsigned>(number % 100000));
        part.replace(part.size() - kTail + 1, 5, digits);
        if (same_file(part, path)) return true;
    }
    return false;
}

struct TensorImportance {
    std::span<const float> weights;
    std::string warning;
};

Result<TensorImportance> importance_of(const GgufFile& in, const GgufTensor& tensor, DType to,
                                       const ImportanceMatrix* matrix) {
    if (matrix == nullptr || traits(to).block_elements == 1) return TensorImportance{};
    const std::span<const float> weights = matrix->find(tensor.name);
    if (weights.empty()) return TensorImportance{{}, "no importance data"};
    const std::size_t expected = tensor.view.shape.columns() * tensor.view.shape.extent[2];
    if (weights.size() == expected) return TensorImportance{weights, {}};
    return tensor_error(in, tensor.name,
                        "importance data is for " + std::to_string(weights.size()) + " columns, not " +
                            std::to_string(expected) + ": it belongs to another model");
}

void add_warning(std::string& warnings, std::string_view what) {
    if (!warnings.empty()) warnings += "; ";
    warnings += what;
}

}  // namespace

Result<ImportanceMatrix> ImportanceMatrix::read(const GgufFile& file) {
    constexpr std::string_view kSums = ".in_sum2";
    ImportanceMatrix matrix;
    for (const GgufTensor& sums : file.tensors()) {
        if (!sums.name.ends_with(kSums)) continue;
        const std::string name(sums.name.substr(0, sums.name.size() - kSums.size()));
        const GgufTensor* counts = file.find_tensor(name + ".counts");
        if (counts == nullptr) return tensor_error(file, sums.name, "has no '.counts' beside it");
        const std::size_t experts = counts->view.shape.elements();
        const std::size_t elements = sums.view.shape.elements();
        if (sums.view.type != DType::F32 || counts->view.type != DType::F32 || experts == 0 ||
            elements % experts != 0) {
            return tensor_error(file, sums.name, "sums and counts must be F32 and of matching shapes");
        }
        std::vector<float> weights(elements);
        std::vector<float> divisors(experts);
        decode_row(DType::F32, sums.view.data, weights);
        decode_row(DType::F32, counts->view.data, divisors);
        for (std::size_t i = 0; i < elements; ++i) {
            const float count = divisors[i / (elements / experts)];
            // An expert nobody asked: all its columns matter the same.
            weights[i] = count > 0.0f ? weights[i] / count : 1.0f;
            if (!std::isfinite(weights[i]) || weights[i] < 0.0f) {
                return tensor_error(file, sums.name,
                                    "element " + std::to_string(i) + " is negative or not a finite number");
            }
        }
        matrix.weights_.emplace(name, std::move(weights));
    }
    if (matrix.weights_.empty()) return Error{ErrorCode::InvalidModel, file.name() + ": holds no importance data"};
    return matrix;
}

std::span<const float> ImportanceMatrix::find(std::string_view name) const {
    const auto at = weights_.find(name);
    return at == weights_.end() ? std::span<const float>() : std::span<const float>(at->second);
}

std::span<const std::string_view> quantize_mixes() {
    static constexpr auto kNames = [] {
        std::array<std::string_view, std::size(kMixes)> names;
        for (std::size_t i = 0; i < names.size(); ++i) names[i] = kMixes[i].name;
        return names;
    }();
    return kNames;
}

Result<std::vector<DType>> plan_quantization(const GgufFile& in, const QuantizeOptions& options) {
    std::vector<DType> types;
    for (const Choice& choice : TRY(choose_types(in, options))) types.push_back(choice.type);
    return types;
}

Status quantize_model(const GgufFile& in, const std::string& out_path, const QuantizeOptions& options,
                      const QuantizeProgress& progress) {
    const Mix mix = TRY(find_mix(options.mix));
    const std::vector<Choice> choices = TRY(choose_types(in, options));
    if (is_input(in, out_path)) {
        return Error{ErrorCode::Usage, out_path + ": the output may not be the input itself"};
    }
    GgufWriter writer = TRY(GgufWriter::create(out_path, static_cast<std::uint32_t>(in.alignment())));
    writer.copy_metadata(in);
    writer.set_u32("general.quantization_version", kQuantizationVersion);
    writer.set_u32("general.file_type", mix.file_type);
    const std::span<const GgufTensor> tensors = in.tensors();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        writer.declare_tensor(tensors[i].name, choices[i].type, tensors[i].view.shape);
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const TensorView& view = tensors[i].view;
        const DType type = choices[i].type;
        std::string warnings;
        if (type == view.type) {
            TRY(writer.append({view.data, view.size_bytes()}));
        } else {
            TensorImportance importance = TRY(importance_of(in, tensors[i], type, options.importance));
            warnings = std::move(importance.warning);
            if (traits(view.type).block_elements > 1 && traits(type).block_elements > 1) {
                add_warning(warnings, "was quantised before: its errors add up");
            }
            TRY(write_converted(in, tensors[i], type, importance.weights, options.parallel, writer));
        }
        if (type != choices[i].wanted) {
            add_warning(warnings, "rows of " + std::to_string(view.shape.columns()) + " do not fit " +
                                      std::string(traits(choices[i].wanted).name));
        }
        if (!progress) continue;
        const QuantizeEvent event{i,
                                  tensors.size(),
                                  tensors[i].name,
                                  view.type,
                                  type,
                                  view.size_bytes(),
                                  row_bytes(type, view.shape.columns()) * view.shape.rows(),
                                  warnings};
        if (progress(event) == QuantizeNext::Cancel) return Error{ErrorCode::Cancelled, "quantisation cancelled"};
    }
    return writer.finish();
}

}  // namespace hearth
