#include "gguf/part.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "gguf/format.h"

namespace hearth {

using namespace gguf_format;

namespace {

// Walks the file from front to back; every step is checked against the bytes that are left.
class PartParser {
public:
    PartParser(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

    Result<GgufPart> run() {
        part_.bytes = bytes_;
        TRY(header());
        TRY(metadata());
        TRY(find_alignment());
        TRY(tensor_infos());
        TRY(place_tensors());
        return std::move(part_);
    }

private:
    Error fail(const std::string& what, std::uint64_t offset) const {
        return Error{ErrorCode::InvalidModel, name_ + ": " + what + ", at byte " + std::to_string(offset)};
    }
    Error fail(const std::string& what) const { return fail(what, at_); }
    std::size_t left() const { return bytes_.size() - at_; }

    // `what` is built only when it is needed: a vocabulary passes here half a million times.
    template <typename T, typename What>
    Result<T> take(const What& what) {
        if (left() < sizeof(T)) return fail("the file ends inside " + std::string(what()));
        const T value = load<T>(bytes_.data() + at_);
        at_ += sizeof(T);
        return value;
    }

    template <typename What>
    Result<std::string_view> take_string(const What& what) {
        const std::size_t start = at_;
        const std::uint64_t length = TRY(take<std::uint64_t>(what));
        if (length > left()) {
            return fail(std::string(what()) + " claims " + std::to_string(length) + " bytes, " +
                            std::to_string(left()) + " are left",
                        start);
        }
        const std::string_view text(reinterpret_cast<const char*>(bytes_.data() + at_),
                                    static_cast<std::size_t>(length));
        at_ += text.size();
        return text;
    }

    template <typename What>
    Result<std::string_view> take_name(const What& what) {
        const std::size_t start = at_;
        const std::string_view name = TRY(take_string(what));
        const char* fault = name_fault(name);
        if (fault != nullptr) return fail(std::string(what()) + " " + fault, start);
        return name;
    }

    Status header() {
        const std::string_view text(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
        if (!text.starts_with(kMagic)) return fail("not a GGUF file (no magic)");
        at_ = kMagic.size();
        const std::uint32_t version = TRY(take<std::uint32_t>([] { return "the version"; }));
        if ((version & 0xffffu) == 0 && version != 0) return fail("a big-endian GGUF file, which is not supported", 4);
        if (version < 2 || version > kNewestVersion) {
            return fail("GGUF version " + std::to_string(version) + " is not supported (2 and 3 are)", 4);
        }
        part_.version = version;
        tensor_count_ = TRY(take<std::uint64_t>([] { return "the tensor count"; }));
        key_count_ = TRY(take<std::uint64_t>([] { return "the metadata count"; }));
        // The tensors lie behind the metadata: this is only their weakest bound, to refuse nonsense early.
        if (tensor_count_ > left() / kSmallestTensorBytes) {
            return fail("the tensor count " + std::to_string(tensor_count_) + " does not fit in the file", 8);
        }
        if (key_count_ > left() / kSmallestKeyBytes) {
            return fail("the metadata count " + std::to_string(key_count_) + " does not fit in the file", 16);
        }
        return {};
    }

    Status metadata() {
        // No reserve from the counts: a sparse file proves any count by its size, but only entries that parse cost.
        for (std::uint64_t i = 0; i < key_count_; ++i) {
            const std::string_view key = TRY(take_name([&] { return "metadata key " + std::to_string(i); }));
            key_ = key;
            const GgufValue value = TRY(take_value());
            part_.keys.push_back(key);
            part_.values.push_back(value);
        }
        const std::size_t twin = part_.key_index.build(part_.keys);
        if (twin != NameIndex::kAbsent) {
            return fail("key '" + std::string(part_.keys[twin]) + "' occurs twice",
                        part_.offset_of(part_.keys[twin].data()));
        }
        return {};
    }

    std::string key_text() const { return "key '" + std::string(key_) + "'"; }

    Result<GgufType> take_type(const char* role) {
        const std::size_t start = at_;
        const std::uint32_t number = TRY(take<std::uint32_t>([&] { return key_text(); }));
        if (number > static_cast<std::uint32_t>(GgufType::F64)) {
            return fail(key_text() + " has the unknown " + role + " " + std::to_string(number), start);
        }
        return static_cast<GgufType>(number);
    }

    Result<GgufValue> take_value() {
        GgufValue value{};
        value.type = value.element_type = TRY(take_type("type"));
        value.count = 1;
        if (value.type == GgufType::Array) return take_array();
        if (value.type == GgufType::String) {
            const std::string_view text = TRY(take_string([&] { return key_text(); }));
            value.data = std::as_bytes(std::span(text));
            return value;
        }
        const std::size_t size_bytes = element_bytes(value.type);
        if (left() < size_bytes) return fail("the file ends inside " + key_text());
        value.data = bytes_.subspan(at_, size_bytes);
        TRY(check_booleans(value));
        at_ += size_bytes;
        return value;
    }

    Result<GgufValue> take_array() {
        GgufValue value{};
        value.type = GgufType::Array;
        const std::size_t start = at_;
        value.element_type = TRY(take_type("element type"));
        if (value.element_type == GgufType::Array) {
            return fail(key_text() + " is an array of arrays, which is not supported", start);
        }
        const std::size_t count_at = at_;
        value.count = TRY(take<std::uint64_t>([&] { return key_text(); }));
        const bool strings = value.element_type == GgufType::String;
        const std::size_t smallest = strings ? sizeof(std::uint64_t) : element_bytes(value.element_type);
        if (value.count > left() / smallest) {
            return fail(key_text() + " claims " + std::to_string(value.count) + " elements, " + std::to_string(left()) +
                            " bytes are left",
                        count_at);
        }
        const std::size_t first = at_;
        if (strings) {
            for (std::uint64_t i = 0; i < value.count; ++i) {
                TRY(take_string([&] { return "element " + std::to_string(i) + " of " + key_text(); }));
            }
        } else {
            at_ += static_cast<std::size_t>(value.count) * smallest;
        }
        value.data = bytes_.subspan(first, at_ - first);
        TRY(check_booleans(value));
        return value;
    }

    Status check_booleans(const GgufValue& value) const {
        if (value.element_type != GgufType::Bool) return {};
        for (const std::byte& payload : value.data) {
            if (std::to_integer<unsigned>(payload) > 1) {
                return fail(key_text() + " holds a bool that is neither 0 nor 1", part_.offset_of(&payload));
            }
        }
        return {};
    }

    Status find_alignment() {
        part_.alignment = kDefaultAlignment;
        const GgufValue* value = part_.find(kAlignmentKey);
        if (value == nullptr) return {};
        const std::uint64_t offset = part_.offset_of(value->data.data());
        const std::optional<Integer> number = value->type == GgufType::Array ? std::nullopt : integer_at(*value, 0);
        if (!number) {
            return fail("key 'general.alignment' is of type " + std::string(name_of(value->type)) + ", not u32",
                        offset);
        }
        const std::uint64_t alignment = static_cast<std::uint64_t>(number->value);
        if (number->huge || number->value < 0 || alignment < kSmallestAlignment || alignment > kLargestAlignment ||
            !std::has_single_bit(alignment)) {
            return fail("key 'general.alignment' must be a power of two from 8 to 65536", offset);
        }
        part_.alignment = alignment;
        return {};
    }

    Status tensor_infos() {
        if (tensor_count_ > left() / kSmallestTensorBytes) {
            return fail("the tensor count " + std::to_string(tensor_count_) + " does not fit in the " +
                            std::to_string(left()) + " bytes behind the metadata",
                        8);
        }
        for (std::uint64_t i = 0; i < tensor_count_; ++i) {
            const GgufTensor tensor = TRY(take_tensor_info(i));
            part_.tensors.push_back(tensor);
        }
        std::vector<std::string_view> names(part_.tensors.size());
        std::ranges::transform(part_.tensors, names.begin(), &GgufTensor::name);
        NameIndex index;
        const std::size_t twin = index.build(std::move(names));
        if (twin == NameIndex::kAbsent) return {};
        const std::string_view name = part_.tensors[twin].name;
        return fail("tensor '" + std::string(name) + "' occurs twice", part_.offset_of(name.data()));
    }

    Result<GgufTensor> take_tensor_info(std::uint64_t number) {
        GgufTensor tensor;
        tensor.name = TRY(take_name([&] { return "the name of tensor " + std::to_string(number); }));
        const auto label = [&] { return "tensor '" + std::string(tensor.name) + "'"; };
        const std::size_t rank_at = at_;
        const std::uint32_t rank = TRY(take<std::uint32_t>(label));
        if (rank == 0 || rank > kDimensionLimit) {
            return fail(label() + " has " + std::to_string(rank) + " dimensions, 1 to 4 are possible", rank_at);
        }
        std::int64_t elements = 1;
        for (std::uint32_t d = 0; d < rank; ++d) {
            const std::size_t start = at_;
            const std::int64_t extent = TRY(take<std::int64_t>(label));
            if (extent <= 0) {
                return fail(
                    label() + " has the extent " + std::to_string(extent) + " in dimension " + std::to_string(d),
                    start);
            }
            if (__builtin_mul_overflow(elements, extent, &elements)) {
                return fail(label() + " has more elements than a 64-bit number holds", start);
            }
            tensor.view.shape.extent[d] = static_cast<std::size_t>(extent);
        }
        const std::size_t type_at = at_;
        const std::uint32_t type_number = TRY(take<std::uint32_t>(label));
        const std::optional<DType> type = dtype_from_gguf(type_number);
        if (!type) return fail(label() + " has the unknown type " + std::to_string(type_number), type_at);
        tensor.view.type = *type;
        const DTypeTraits& facts = traits(*type);
        if (tensor.view.shape.columns() % facts.block_elements != 0) {
            return fail(label() + " of type " + std::string(facts.name) + " has " +
                            std::to_string(tensor.view.shape.columns()) + " columns, not a multiple of " +
                            std::to_string(facts.block_elements),
                        type_at);
        }
        const std::size_t offset_at = at_;
        tensor.file_offset = TRY(take<std::uint64_t>(label));  // still relative to the data, see place_tensors
        if (tensor.file_offset % part_.alignment != 0) {
            return fail(label() + " has the offset " + std::to_string(tensor.file_offset) + ", not a multiple of " +
                            std::to_string(part_.alignment),
                        offset_at);
        }
        return tensor;
    }

    // Turns offsets into addresses, now that the beginning of the data is known.
    Status place_tensors() {
        const std::uint64_t data_at = align_up(at_, part_.alignment);
        const std::uint64_t file_end = bytes_.size();
        for (GgufTensor& tensor : part_.tensors) {
            const DTypeTraits& facts = traits(tensor.view.type);
            std::uint64_t size_bytes = 0;
            std::uint64_t begin = 0;
            std::uint64_t end = 0;
            const bool overflow = __builtin_mul_overflow(tensor.view.shape.elements() / facts.block_elements,
                                                         std::uint64_t{facts.block_bytes}, &size_bytes) ||
                                  __builtin_add_overflow(data_at, tensor.file_offset, &begin) ||
                                  __builtin_add_overflow(begin, size_bytes, &end);
            if (overflow || end > file_end) {
                return fail("tensor '" + std::string(tensor.name) + "' reaches past the end of the file (" +
                                std::to_string(file_end) + " bytes)",
                            overflow ? part_.offset_of(tensor.name.data()) : begin);
            }
            tensor.file_offset = begin;
            tensor.view.data = bytes_.data() + begin;
        }
        return check_overlaps();
    }

    Status check_overlaps() const {
        std::vector<const GgufTensor*> order;
        order.reserve(part_.tensors.size());
        for (const GgufTensor& tensor : part_.tensors) order.push_back(&tensor);
        std::ranges::sort(order, {}, &GgufTensor::file_offset);
        for (std::size_t i = 1; i < order.size(); ++i) {
            const GgufTensor& before = *order[i - 1];
            if (before.file_offset + before.view.size_bytes() <= order[i]->file_offset) continue;
            return fail("tensors '" + std::string(before.name) + "' and '" + std::string(order[i]->name) + "' overlap",
                        order[i]->file_offset);
        }
        return {};
    }

    std::span<const std::byte> bytes_;
    const std::string& name_;
    GgufPart part_;
    std::size_t at_ = 0;
    std::uint64_t tensor_count_ = 0;
    std::uint64_t key_count_ = 0;
    std::string_view key_;  // the one being read, for errors
};

}  // namespace

std::size_t NameIndex::build(std::vector<std::string_view> names) {
    entries_.clear();
    entries_.reserve(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) entries_.push_back({names[i], i});
    std::ranges::sort(entries_, [](const Entry& a, const Entry& b) {
        return a.name != b.name ? a.name < b.name : a.position < b.position;
    });
    const auto twin = std::ranges::adjacent_find(entries_, {}, &Entry::name);
    return twin == entries_.end() ? kAbsent : (twin + 1)->position;
}

std::size_t NameIndex::find(std::string_view name) const {
    const auto entry = std::ranges::lower_bound(entries_, name, {}, &Entry::name);
    return entry == entries_.end() || entry->name != name ? kAbsent : entry->position;
}

Result<GgufPart> GgufPart::parse(std::span<const std::byte> bytes, const std::string& name) {
    return PartParser(bytes, name).run();
}

const GgufValue* GgufPart::find(std::string_view key) const {
    const std::size_t position = key_index.find(key);
    return position == NameIndex::kAbsent ? nullptr : &values[position];
}

namespace gguf_format {

const char* name_fault(std::string_view name) {
    if (name.empty()) return "is empty";
    if (name.size() > kNameLimitBytes) return "is longer than 256 bytes";
    for (std::size_t at = 0; at < name.size();) {
        const CodePoint point = decode_utf8(name, at);
        if (point.length == 0) return "is not valid UTF-8";
        if (point.value < 0x20 || (point.value >= 0x7f && point.value < 0xa0)) return "holds a control character";
        at += point.length;
    }
    return nullptr;
}

std::optional<Integer> integer_at(const GgufValue& value, std::uint64_t index) {
    const std::byte* at = value.data.data() + index * element_bytes(value.element_type);
    switch (value.element_type) {
        case GgufType::U8: return Integer{load<std::uint8_t>(at)};
        case GgufType::I8: return Integer{load<std::int8_t>(at)};
        case GgufType::U16: return Integer{load<std::uint16_t>(at)};
        case GgufType::I16: return Integer{load<std::int16_t>(at)};
        case GgufType::U32: return Integer{load<std::uint32_t>(at)};
        case GgufType::I32: return Integer{load<std::int32_t>(at)};
        case GgufType::I64: return Integer{load<std::int64_t>(at)};
        case GgufType::U64: {
            const std::uint64_t number = load<std::uint64_t>(at);
            return Integer{static_cast<std::int64_t>(number), number > 0x7fffffffffffffffu};
        }
        default: return std::nullopt;
    }
}

}  // namespace gguf_format

}  // namespace hearth
