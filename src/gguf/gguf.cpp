#include "gguf/gguf.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "base/hash.h"
#include "base/mapped_file.h"
#include "base/memory.h"
#include "gguf/format.h"
#include "gguf/part.h"

namespace hearth {

using namespace gguf_format;

namespace {

// Of arrays that are copied: far above any vocabulary. A sparse file has room for any number.
constexpr std::uint64_t kMostArrayElements = 1U << 24;

}  // namespace

std::string_view name_of(GgufType type) {
    constexpr std::array<std::string_view, 13> kNames = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                         "bool", "string", "array", "u64", "i64", "f64"};
    const std::size_t number = static_cast<std::size_t>(type);
    return number < kNames.size() ? kNames[number] : std::string_view("unknown");
}

struct GgufFile::Impl {
    std::string name;
    std::vector<MappedFile> files;  // empty when parsed from memory
    GgufPart first;                 // whose metadata is the model's
    std::vector<GgufTensor> tensors;
    NameIndex tensor_index;
    std::size_t file_bytes = 0;

    Error fail(const std::string& what) const { return Error{ErrorCode::InvalidModel, name + ": " + what}; }
    Error fail_at(const std::string& what, const GgufValue& value) const {
        return fail(what + ", at byte " + std::to_string(first.offset_of(value.data.data())));
    }
    Error missing(std::string_view key) const { return fail("key '" + std::string(key) + "' is missing"); }
    Error wrong_type(std::string_view key, const GgufValue& value, std::string_view expected) const {
        std::string found(name_of(value.type));
        if (value.type == GgufType::Array) found += " of " + std::string(name_of(value.element_type));
        return fail_at("key '" + std::string(key) + "' is of type " + found + ", not " + std::string(expected), value);
    }

    Result<std::uint32_t> to_u32(std::string_view key, const GgufValue& value) const;
    Result<float> to_f32(std::string_view key, const GgufValue& value) const;
    Result<bool> to_boolean(std::string_view key, const GgufValue& value) const;
    Result<std::string_view> to_string(std::string_view key, const GgufValue& value) const;
    Result<const GgufValue*> array(std::string_view key) const;
    Status index_tensors();
};

Result<std::uint32_t> GgufFile::Impl::to_u32(std::string_view key, const GgufValue& value) const {
    const std::optional<Integer> number = value.type == GgufType::Array ? std::nullopt : integer_at(value, 0);
    if (!number) return wrong_type(key, value, "u32");
    if (number->huge || number->value < 0 || number->value > std::numeric_limits<std::uint32_t>::max()) {
        const std::string text =
            number->huge ? std::to_string(static_cast<std::uint64_t>(number->value)) : std::to_string(number->value);
        return fail_at("key '" + std::string(key) + "' is " + text + ", which does not fit in u32", value);
    }
    return static_cast<std::uint32_t>(number->value);
}

Result<float> GgufFile::Impl::to_f32(std::string_view key, const GgufValue& value) const {
    double number = 0;
    if (value.type == GgufType::F32) {
        number = static_cast<double>(load<float>(value.data.data()));
    } else if (value.type == GgufType::F64) {
        number = load<double>(value.data.data());
    } else {
        return wrong_type(key, value, "f32");
    }
    // A negated comparison, so that NaN fails it too.
    if (!(std::fabs(number) <= static_cast<double>(std::numeric_limits<float>::max()))) {
        return fail_at("key '" + std::string(key) + "' is not a finite f32", value);
    }
    return static_cast<float>(number);
}

Result<bool> GgufFile::Impl::to_boolean(std::string_view key, const GgufValue& value) const {
    if (value.type != GgufType::Bool) return wrong_type(key, value, "bool");
    return value.data[0] != std::byte{0};
}

Result<std::string_view> GgufFile::Impl::to_string(std::string_view key, const GgufValue& value) const {
    if (value.type != GgufType::String) return wrong_type(key, value, "string");
    return std::string_view(reinterpret_cast<const char*>(value.data.data()), value.data.size());
}

Result<const GgufValue*> GgufFile::Impl::array(std::string_view key) const {
    const GgufValue* value = first.find(key);
    if (value == nullptr) return missing(key);
    if (value->type != GgufType::Array) return wrong_type(key, *value, "array");
    if (value->count > kMostArrayElements) {
        return fail_at("key '" + std::string(key) + "' has " + std::to_string(value->count) + " elements, at most " +
                           std::to_string(kMostArrayElements) + " are supported",
                       *value);
    }
    return value;
}

Status GgufFile::Impl::index_tensors() {
    std::vector<std::string_view> names(tensors.size());
    std::ranges::transform(tensors, names.begin(), &GgufTensor::name);
    const std::size_t twin = tensor_index.build(std::move(names));
    if (twin == NameIndex::kAbsent) return {};
    return fail("tensor '" + std::string(tensors[twin].name) + "' occurs in two parts, again in part " +
                std::to_string(tensors[twin].split + 1) + " at byte " + std::to_string(tensors[twin].file_offset));
}

namespace {

// PREFIX-00002-of-00005.gguf taken apart.
struct PartPath {
    std::string_view prefix;
    std::uint32_t number = 0;  // from 1
    std::uint32_t count = 0;
};

std::optional<PartPath> split_path(std::string_view path) {
    constexpr std::string_view kForm = "-00000-of-00000.gguf";
    if (path.size() <= kForm.size()) return std::nullopt;
    const std::string_view tail = path.substr(path.size() - kForm.size());
    for (std::size_t i = 0; i < kForm.size(); ++i) {
        const bool digit = tail[i] >= '0' && tail[i] <= '9';
        if (kForm[i] == '0' ? !digit : tail[i] != kForm[i]) return std::nullopt;
    }
    const auto number = [&](std::size_t at) {
        std::uint32_t value = 0;
        for (const char digit : tail.substr(at, 5)) value = value * 10 + static_cast<std::uint32_t>(digit - '0');
        return value;
    };
    return PartPath{path.substr(0, path.size() - kForm.size()), number(1), number(10)};
}

std::string part_path(std::string_view prefix, std::uint32_t number, std::uint32_t count) {
    char tail[32];
    std::snprintf(tail, sizeof tail, "-%05u-of-%05u.gguf", number, count);
    return std::string(prefix) + tail;
}

Result<std::optional<std::uint64_t>> natural(const GgufPart& part, const std::string& name, std::string_view key) {
    const GgufValue* value = part.find(key);
    if (value == nullptr) return std::optional<std::uint64_t>();
    const std::optional<Integer> number = value->type == GgufType::Array ? std::nullopt : integer_at(*value, 0);
    if (number && !number->huge && number->value >= 0) return std::optional(static_cast<std::uint64_t>(number->value));
    return Error{ErrorCode::InvalidModel, name + ": key '" + std::string(key) + "' of type " +
                                              std::string(name_of(value->type)) + " is not a natural number, at byte " +
                                              std::to_string(part.offset_of(value->data.data()))};
}

// The number of files the model consists of, as this part tells it.
Result<std::uint64_t> declared_parts(const GgufPart& part, const std::string& name) {
    const std::optional<std::uint64_t> count = TRY(natural(part, name, kSplitCountKey));
    if (count && *count == 0) return Error{ErrorCode::InvalidModel, name + ": key 'split.count' is 0"};
    return count.value_or(1);
}

// Whether a later part belongs to the same model: its place, and no key that says otherwise than the first part.
Status check_part(const GgufPart& part, const std::string& name, std::uint32_t number, std::uint32_t count,
                  const GgufPart& first) {
    const auto fail = [&](const std::string& what) { return Error{ErrorCode::InvalidModel, name + ": " + what}; };
    if (TRY(declared_parts(part, name)) != count) {
        return fail("key 'split.count' differs from the file name, which says " + std::to_string(count));
    }
    const std::optional<std::uint64_t> place = TRY(natural(part, name, kSplitNumberKey));
    if (!place) return fail("key 'split.no' is missing");
    if (*place + 1 != number) {
        return fail("key 'split.no' is " + std::to_string(*place) + ", but the file name says part " +
                    std::to_string(number));
    }
    for (std::size_t i = 0; i < part.keys.size(); ++i) {
        const std::string_view key = part.keys[i];
        if (key == kSplitNumberKey || key == kAlignmentKey) continue;
        const GgufValue* other = first.find(key);
        const GgufValue& own = part.values[i];
        if (other == nullptr) continue;
        const bool same = own.type == other->type && own.element_type == other->element_type &&
                          own.count == other->count && std::ranges::equal(own.data, other->data);
        if (!same) return fail("key '" + std::string(key) + "' differs from the first part of the model");
    }
    return {};
}

}  // namespace

Result<GgufFile> GgufFile::open(const std::string& path) {
    auto impl = std::make_unique<Impl>();
    impl->name = path;
    MappedFile opened = TRY(MappedFile::open(path));
    GgufPart part = TRY(GgufPart::parse(opened.bytes(), path));
    const std::uint64_t declared = TRY(declared_parts(part, path));
    if (declared == 1) {
        impl->file_bytes = opened.bytes().size();
        impl->tensors = std::move(part.tensors);
        impl->first = std::move(part);
        impl->files.push_back(std::move(opened));
        TRY(impl->index_tensors());
        return GgufFile(std::move(impl));
    }

    const std::optional<PartPath> place = split_path(path);
    if (!place || place->count != declared || place->number == 0 || place->number > place->count) {
        return impl->fail("part of a split model (key 'split.count' is " + std::to_string(declared) +
                          "): its name must have the form NAME" +
                          part_path("", 1, static_cast<std::uint32_t>(std::min<std::uint64_t>(declared, 99999))));
    }
    const std::uint32_t count = place->count;
    for (std::uint32_t number = 1; number <= count; ++number) {
        const std::string name = part_path(place->prefix, number, count);
        MappedFile file = number == place->number ? std::move(opened) : TRY(MappedFile::open(name));
        GgufPart next = number == place->number ? std::move(part) : TRY(GgufPart::parse(file.bytes(), name));
        TRY(check_part(next, name, number, count, number == 1 ? next : impl->first));
        for (GgufTensor& tensor : next.tensors) {
            tensor.split = number - 1;
            impl->tensors.push_back(tensor);
        }
        impl->file_bytes += file.bytes().size();
        impl->files.push_back(std::move(file));
        if (number == 1) impl->first = std::move(next);
    }
    const std::optional<std::uint64_t> total = TRY(natural(impl->first, path, kSplitTensorsKey));
    if (total && *total != impl->tensors.size()) {
        return impl->fail("the parts hold " + std::to_string(impl->tensors.size()) +
                          " tensors, key 'split.tensors.count' says " + std::to_string(*total));
    }
    TRY(impl->index_tensors());
    return GgufFile(std::move(impl));
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::string name) {
    auto impl = std::make_unique<Impl>();
    impl->name = std::move(name);
    impl->first = TRY(GgufPart::parse(bytes, impl->name));
    const std::uint64_t declared = TRY(declared_parts(impl->first, impl->name));
    if (declared != 1) {
        return impl->fail("key 'split.count' is " + std::to_string(declared) + ": parts are opened by their path only");
    }
    impl->file_bytes = bytes.size();
    impl->tensors = std::move(impl->first.tensors);
    TRY(impl->index_tensors());
    return GgufFile(std::move(impl));
}

GgufFile::GgufFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;
GgufFile::~GgufFile() = default;

const std::string& GgufFile::name() const {
    return impl_->name;
}
std::uint32_t GgufFile::version() const {
    return impl_->first.version;
}
std::uint64_t GgufFile::alignment() const {
    return impl_->first.alignment;
}
std::uint64_t GgufFile::identity() const {
    std::uint64_t hash = hash_bytes({}, impl_->file_bytes);
    const auto add = [&hash](std::uint64_t value) { hash = mix64(hash ^ value) + value; };
    for (const MappedFile& file : impl_->files) {
        add(file.bytes().size());
        add(static_cast<std::uint64_t>(file.version().modified_ns));
    }
    for (const GgufTensor& tensor : impl_->tensors) {
        hash = hash_bytes(std::as_bytes(std::span(tensor.name)), hash);
        add(static_cast<std::uint64_t>(tensor.view.type));
        for (const std::size_t extent : tensor.view.shape.extent) add(extent);
        add(tensor.file_offset);
    }
    return hash;
}

void GgufFile::forget(std::span<const std::byte> bytes) const {
    for (const MappedFile& file : impl_->files) file.forget(bytes);
}

std::size_t GgufFile::file_bytes() const {
    return impl_->file_bytes;
}
std::size_t GgufFile::part_count() const {
    return std::max<std::size_t>(1, impl_->files.size());
}
std::span<const std::string_view> GgufFile::keys() const {
    return impl_->first.keys;
}
const GgufValue* GgufFile::find(std::string_view key) const {
    return impl_->first.find(key);
}

Result<std::uint32_t> GgufFile::u32(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return impl_->missing(key);
    return impl_->to_u32(key, *value);
}

Result<float> GgufFile::f32(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return impl_->missing(key);
    return impl_->to_f32(key, *value);
}

Result<bool> GgufFile::boolean(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return impl_->missing(key);
    return impl_->to_boolean(key, *value);
}

Result<std::string_view> GgufFile::string(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return impl_->missing(key);
    return impl_->to_string(key, *value);
}

Result<std::optional<std::uint32_t>> GgufFile::find_u32(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::optional<std::uint32_t>();
    return std::optional(TRY(impl_->to_u32(key, *value)));
}

Result<std::optional<float>> GgufFile::find_f32(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::optional<float>();
    return std::optional(TRY(impl_->to_f32(key, *value)));
}

Result<std::optional<bool>> GgufFile::find_boolean(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::optional<bool>();
    return std::optional(TRY(impl_->to_boolean(key, *value)));
}

Result<std::optional<std::string_view>> GgufFile::find_string(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::optional<std::string_view>();
    return std::optional(TRY(impl_->to_string(key, *value)));
}

Result<std::vector<std::string_view>> GgufFile::strings(std::string_view key) const {
    const GgufValue& value = *TRY(impl_->array(key));
    if (value.element_type != GgufType::String) return impl_->wrong_type(key, value, "array of string");
    std::vector<std::string_view> out;
    reserve_large(out, static_cast<std::size_t>(value.count));
    for_each_string(value, [&](std::uint64_t, std::string_view text) {
        out.push_back(text);
        return true;
    });
    return out;
}

Result<std::vector<float>> GgufFile::floats(std::string_view key) const {
    const GgufValue& value = *TRY(impl_->array(key));
    if (value.element_type != GgufType::F32) return impl_->wrong_type(key, value, "array of f32");
    std::vector<float> out(static_cast<std::size_t>(value.count));
    for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = load<float>(value.data.data() + i * sizeof(float));
        if (std::isfinite(out[i])) continue;
        return impl_->fail_at("element " + std::to_string(i) + " of key '" + std::string(key) + "' is not finite",
                              value);
    }
    return out;
}

Result<std::vector<std::int32_t>> GgufFile::integers(std::string_view key) const {
    const GgufValue& value = *TRY(impl_->array(key));
    std::vector<std::int32_t> out;
    if (value.element_type == GgufType::Bool) {
        out.reserve(static_cast<std::size_t>(value.count));
        for (const std::byte flag : value.data) out.push_back(std::to_integer<std::int32_t>(flag));
        return out;
    }
    if (element_bytes(value.element_type) == 0 || value.element_type == GgufType::F32 ||
        value.element_type == GgufType::F64) {
        return impl_->wrong_type(key, value, "array of i32");
    }
    out.reserve(static_cast<std::size_t>(value.count));
    for (std::uint64_t i = 0; i < value.count; ++i) {
        const std::optional<Integer> number = integer_at(value, i);
        const bool fits = number && !number->huge && std::in_range<std::int32_t>(number->value);
        if (!fits) {
            return impl_->fail_at(
                "element " + std::to_string(i) + " of key '" + std::string(key) + "' does not fit in i32, array",
                value);
        }
        out.push_back(static_cast<std::int32_t>(number->value));
    }
    return out;
}

std::span<const GgufTensor> GgufFile::tensors() const {
    return impl_->tensors;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
    const std::size_t position = impl_->tensor_index.find(name);
    return position == NameIndex::kAbsent ? nullptr : &impl_->tensors[position];
}

Result<TensorView> GgufFile::tensor(std::string_view name, Shape expected) const {
    const GgufTensor* found = find_tensor(name);
    if (found == nullptr) return impl_->fail("tensor '" + std::string(name) + "' is missing");
    if (found->view.shape == expected) return found->view;
    return impl_->fail("tensor '" + std::string(name) + "' has the shape " + shape_text(found->view.shape) + ", " +
                       shape_text(expected) + " is expected, at byte " + std::to_string(found->file_offset));
}

std::string shape_text(const Shape& shape) {
    std::size_t rank = shape.extent.size();
    while (rank > 1 && shape.extent[rank - 1] == 1) --rank;
    std::string out = "[";
    for (std::size_t d = 0; d < rank; ++d) {
        if (d > 0) out += ", ";
        out += std::to_string(shape.extent[d]);
    }
    return out + "]";
}

}  // namespace hearth
