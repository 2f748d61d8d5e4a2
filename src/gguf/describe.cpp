#include "gguf/describe.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "gguf/format.h"

namespace hearth {

using namespace gguf_format;

namespace {

constexpr std::uint64_t kJsonElements = 16;           // arrays up to this length are shown whole
constexpr std::size_t kJsonStringBytes = 256 * 1024;  // more than any chat template
constexpr std::uint64_t kTextElements = 6;
constexpr std::size_t kTextStringBytes = 100;

struct TypeShare {
    std::uint64_t tensors = 0;
    std::uint64_t parameters = 0;
    std::uint64_t size_bytes = 0;
};

// The facts of the headline. What the file does not say, or says in the wrong type, is absent.
struct Facts {
    std::optional<std::string_view> architecture;
    std::optional<std::string_view> model_name;
    std::optional<std::uint32_t> context;
    std::optional<std::uint32_t> layers;
    std::optional<std::uint32_t> width;
    std::optional<std::uint64_t> vocabulary;
    TypeShare all;
    std::array<TypeShare, kDTypeLimit> by_type{};
};

std::optional<std::string_view> soft_string(const GgufFile& file, std::string_view key) {
    const Result<std::optional<std::string_view>> found = file.find_string(key);
    return found.ok() ? found.value() : std::nullopt;
}

std::optional<std::uint32_t> soft_u32(const GgufFile& file, const std::string& key) {
    const Result<std::optional<std::uint32_t>> found = file.find_u32(key);
    return found.ok() ? found.value() : std::nullopt;
}

Facts gather(const GgufFile& file) {
    Facts facts;
    facts.architecture = soft_string(file, "general.architecture");
    facts.model_name = soft_string(file, "general.name");
    const std::string prefix(facts.architecture.value_or("").substr(0, kNameLimitBytes));
    facts.context = soft_u32(file, prefix + ".context_length");
    facts.layers = soft_u32(file, prefix + ".block_count");
    facts.width = soft_u32(file, prefix + ".embedding_length");
    const GgufValue* tokens = file.find("tokenizer.ggml.tokens");
    if (tokens != nullptr && tokens->type == GgufType::Array) {
        facts.vocabulary = tokens->count;
    } else {
        facts.vocabulary = soft_u32(file, prefix + ".vocab_size");
    }
    for (const GgufTensor& tensor : file.tensors()) {
        for (TypeShare* share : {&facts.all, &facts.by_type[static_cast<std::size_t>(tensor.view.type)]}) {
            share->tensors += 1;
            share->parameters += tensor.view.shape.elements();
            share->size_bytes += tensor.view.size_bytes();
        }
    }
    return facts;
}

double bits_per_weight(const TypeShare& share) {
    return share.parameters == 0 ? 0
                                 : 8 * static_cast<double>(share.size_bytes) / static_cast<double>(share.parameters);
}

// The types that occur, those with most bytes first.
std::vector<DType> types_by_size(const Facts& facts) {
    std::vector<DType> types;
    for (std::size_t number = 0; number < kDTypeLimit; ++number) {
        if (facts.by_type[number].tensors > 0) types.push_back(static_cast<DType>(number));
    }
    std::ranges::stable_sort(types, std::ranges::greater{},
                             [&](DType type) { return facts.by_type[static_cast<std::size_t>(type)].size_bytes; });
    return types;
}

std::string formatted(const char* format, double value) {
    char text[64];
    std::snprintf(text, sizeof text, format, value);
    return text;
}

// 134515008 as "134.5 M"; decimal steps, as parameters and disk sizes are told.
std::string with_unit(std::uint64_t value, const char* unit) {
    constexpr std::array<const char*, 5> kSteps = {"", "k", "M", "G", "T"};
    double scaled = static_cast<double>(value);
    std::size_t step = 0;
    for (; scaled >= 1000 && step + 1 < kSteps.size(); ++step) scaled /= 1000;
    std::string out = formatted(step == 0 ? "%.0f" : "%.1f", scaled);
    out += ' ';
    out += kSteps[step];
    out += unit;
    while (out.ends_with(' ')) out.pop_back();
    return out;
}

// Cut at a character boundary; says how much there is when something is left out.
std::string shortened(std::string_view text, std::size_t limit_bytes) {
    if (text.size() <= limit_bytes) return std::string(text);
    std::string_view head = text.substr(0, limit_bytes);
    head.remove_suffix(incomplete_utf8_tail(head));
    return std::string(head) + "... (" + std::to_string(text.size()) + " bytes)";
}

// Foreign text in one line that cannot steer a terminal.
std::string printable(std::string_view text) {
    const std::string repaired = repair_utf8(text);
    std::string out;
    for (std::size_t at = 0; at < repaired.size();) {
        const CodePoint point = decode_utf8(repaired, at);
        const std::size_t length = std::max<std::size_t>(1, point.length);
        if (point.value == '\n') {
            out += "\\n";
        } else if (point.value < 0x20 || (point.value >= 0x7f && point.value < 0xa0)) {
            char escape[16];
            std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(point.value));
            out += escape;
        } else {
            out.append(repaired, at, length);
        }
        at += length;
    }
    return out;
}

std::string_view string_of(const GgufValue& value) {
    return {reinterpret_cast<const char*>(value.data.data()), value.data.size()};
}

// The double that prints like the float: 1e-05, not 9.999999747378752e-06.
double shortest_double(float value) {
    if (!std::isfinite(value)) return static_cast<double>(value);
    char text[32];
    const std::to_chars_result written = std::to_chars(text, text + sizeof text, value);
    double out = static_cast<double>(value);
    std::from_chars(text, written.ptr, out);
    return out;
}

// Element `index` of a number or array of numbers.
Json number_json(const GgufValue& value, std::uint64_t index) {
    const std::byte* at = value.data.data() + index * element_bytes(value.element_type);
    switch (value.element_type) {
        case GgufType::Bool: return Json(load<std::uint8_t>(at) != 0);
        case GgufType::F32: return Json(shortest_double(load<float>(at)));
        case GgufType::F64: return Json(load<double>(at));
        default: break;
    }
    const std::optional<Integer> number = integer_at(value, index);
    if (!number) return Json();
    // JSON integers are signed here: the few that do not fit are text.
    return number->huge ? Json(std::to_string(static_cast<std::uint64_t>(number->value))) : Json(number->value);
}

Json::Array first_elements(const GgufValue& value, std::uint64_t limit, std::size_t string_limit_bytes) {
    Json::Array items;
    if (value.element_type == GgufType::String) {
        for_each_string(value, [&](std::uint64_t index, std::string_view text) {
            if (index < limit) items.emplace_back(shortened(text, string_limit_bytes));
            return index + 1 < limit;
        });
        return items;
    }
    for (std::uint64_t i = 0; i < std::min(value.count, limit); ++i) items.push_back(number_json(value, i));
    return items;
}

Json value_json(const GgufValue& value) {
    if (value.type == GgufType::String) return Json(shortened(string_of(value), kJsonStringBytes));
    if (value.type != GgufType::Array) return number_json(value, 0);
    if (value.count <= kJsonElements) return Json(first_elements(value, value.count, kJsonStringBytes));
    return Json(Json::Object{{"elements", Json(std::string(name_of(value.element_type)))},
                             {"count", Json(value.count)},
                             {"first", Json(first_elements(value, kTextElements, kJsonStringBytes))}});
}

std::string counted(std::uint64_t count, std::string_view noun) {
    std::string out = std::to_string(count);
    out += ' ';
    out += noun;
    if (count != 1) out += 's';
    return out;
}

std::string value_text(const GgufValue& value) {
    if (value.type == GgufType::String) return printable(shortened(string_of(value), kTextStringBytes));
    if (value.type != GgufType::Array) return number_json(value, 0).dump();
    std::string out = "[";
    const std::string noun(name_of(value.element_type));
    out += counted(value.count, value.element_type == GgufType::String ? noun : noun + " value");
    out += ']';
    for (const Json& item : first_elements(value, kTextElements, kTextStringBytes / 4)) {
        const std::string* text = item.as_string();
        out += ' ';
        out += text != nullptr ? '"' + printable(*text) + '"' : item.dump();
    }
    return value.count > kTextElements ? out + " ..." : out;
}

void add_row(std::string& out, std::string_view left, std::string_view right) {
    constexpr std::size_t kColumn = 16;
    out += left;
    out.append(left.size() < kColumn ? kColumn - left.size() : 1, ' ');
    out += right;
    out += '\n';
}

template <typename T>
void add_number(std::string& out, std::string_view left, const std::optional<T>& value) {
    if (value) add_row(out, left, std::to_string(*value));
}

// Rows of cells, each column as wide as its widest cell (but the last one).
std::string table(const std::vector<std::vector<std::string>>& rows) {
    std::vector<std::size_t> widths;
    for (const std::vector<std::string>& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
    }
    std::string out;
    for (const std::vector<std::string>& row : rows) {
        out += "  ";
        for (std::size_t c = 0; c < row.size(); ++c) {
            out += row[c];
            if (c + 1 < row.size()) out.append(widths[c] - row[c].size() + 2, ' ');
        }
        out += '\n';
    }
    return out;
}

template <typename T>
Json optional_json(const std::optional<T>& value) {
    return value ? Json(*value) : Json();
}

}  // namespace

Json describe(const GgufFile& file) {
    const Facts facts = gather(file);
    Json::Object types;
    for (const DType type : types_by_size(facts)) {
        const TypeShare& share = facts.by_type[static_cast<std::size_t>(type)];
        types.emplace_back(
            std::string(traits(type).name),
            Json::Object{{"tensors", share.tensors}, {"parameters", share.parameters}, {"bytes", share.size_bytes}});
    }
    Json::Object metadata;
    for (const std::string_view key : file.keys()) metadata.emplace_back(std::string(key), value_json(*file.find(key)));
    Json::Array tensors;
    for (const GgufTensor& tensor : file.tensors()) {
        Json::Array shape;
        for (const std::size_t extent : tensor.view.shape.extent) shape.emplace_back(std::uint64_t{extent});
        while (shape.size() > 1 && *shape.back().as_int() == 1) shape.pop_back();
        tensors.emplace_back(Json::Object{{"name", tensor.name},
                                          {"type", traits(tensor.view.type).name},
                                          {"shape", std::move(shape)},
                                          {"bytes", std::uint64_t{tensor.view.size_bytes()}},
                                          {"file", std::uint64_t{tensor.split}},
                                          {"offset", tensor.file_offset}});
    }
    return Json::Object{{"file", file.name()},
                        {"gguf_version", file.version()},
                        {"files", std::uint64_t{file.part_count()}},
                        {"file_bytes", std::uint64_t{file.file_bytes()}},
                        {"architecture", optional_json(facts.architecture)},
                        {"name", optional_json(facts.model_name)},
                        {"parameters", facts.all.parameters},
                        {"tensor_bytes", facts.all.size_bytes},
                        {"bits_per_weight", bits_per_weight(facts.all)},
                        {"context_length", optional_json(facts.context)},
                        {"layers", optional_json(facts.layers)},
                        {"embedding_length", optional_json(facts.width)},
                        {"vocabulary", optional_json(facts.vocabulary)},
                        {"types", std::move(types)},
                        {"metadata", std::move(metadata)},
                        {"tensors", std::move(tensors)}};
}

std::string summary_text(const GgufFile& file) {
    const Facts facts = gather(file);
    std::string out;
    std::string kind = "GGUF version ";
    kind += std::to_string(file.version());
    if (file.part_count() > 1) kind += ", " + std::to_string(file.part_count()) + " files";
    add_row(out, "file", printable(file.name()));
    add_row(out, "format", kind);
    if (facts.architecture) add_row(out, "architecture", printable(shortened(*facts.architecture, kTextStringBytes)));
    if (facts.model_name) add_row(out, "name", printable(shortened(*facts.model_name, kTextStringBytes)));
    add_row(out, "parameters", with_unit(facts.all.parameters, "") + " (" + std::to_string(facts.all.parameters) + ")");
    add_row(out, "size", with_unit(file.file_bytes(), "B"));
    add_row(out, "bits per weight", formatted("%.2f", bits_per_weight(facts.all)));
    add_number(out, "context", facts.context);
    add_number(out, "layers", facts.layers);
    add_number(out, "width", facts.width);
    add_number(out, "vocabulary", facts.vocabulary);
    for (const DType type : types_by_size(facts)) {
        const TypeShare& share = facts.by_type[static_cast<std::size_t>(type)];
        add_row(out, traits(type).name, counted(share.tensors, "tensor") + ", " + with_unit(share.size_bytes, "B"));
    }

    std::vector<std::vector<std::string>> rows;
    for (const std::string_view key : file.keys()) {
        const GgufValue& value = *file.find(key);
        rows.push_back({std::string(key), std::string(name_of(value.type)), value_text(value)});
    }
    out += "\nmetadata, " + counted(rows.size(), "key") + "\n" + table(rows);
    rows.clear();
    for (const GgufTensor& tensor : file.tensors()) {
        rows.push_back({std::string(tensor.name), std::string(traits(tensor.view.type).name),
                        shape_text(tensor.view.shape), std::to_string(tensor.view.size_bytes())});
    }
    out += '\n';
    out += counted(rows.size(), "tensor") + "\n" + table(rows);
    return out;
}

}  // namespace hearth
