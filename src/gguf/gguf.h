// GGUF model files: a hardened reader over mapped bytes. Nothing is allocated from a count the file has not proven,
// and every accessor refuses a wrong type by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"

namespace hearth {

enum class GgufType : std::uint32_t {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
};
std::string_view name_of(GgufType type);

// One metadata value, still in the file: `data` views the mapped bytes.
struct GgufValue {
    GgufType type;
    GgufType element_type;            // of an array
    std::uint64_t count = 1;          // elements of an array
    std::span<const std::byte> data;  // the payload; of a string without its length
};

struct GgufTensor {
    std::string_view name;
    TensorView view;
    std::uint64_t file_offset = 0;  // from the beginning of its file
    std::uint32_t split = 0;        // which file of a split model holds it
};

class GgufFile {
public:
    // Opens PATH and, when it is a part of a split model (any of them), the others beside it.
    static Result<GgufFile> open(const std::string& path);
    // The same over bytes in memory, which must outlive the result; tensors are as aligned as `bytes` is. `name` stands
    // for the path in errors. Parts of split models are refused: their siblings cannot be found.
    static Result<GgufFile> parse(std::span<const std::byte> bytes, std::string name);

    GgufFile(GgufFile&&) noexcept;
    GgufFile& operator=(GgufFile&&) noexcept;
    ~GgufFile();

    const std::string& name() const;  // the path, for errors
    std::uint32_t version() const;
    std::uint64_t alignment() const;
    std::size_t file_bytes() const;  // all parts together
    std::size_t part_count() const;  // files of a split model; 1 otherwise
    // Differs when the files' sizes, their times of change or the tensor table differ: what a cache made from this
    // model is good for.
    std::uint64_t identity() const;
    void forget(std::span<const std::byte> bytes) const;  // see MappedFile::forget

    // Metadata. Absent: error from the plain form, nullopt from find_*. Wrong type or range: always an error naming
    // the key. Integers of every width and sign are accepted when the value fits.
    std::span<const std::string_view> keys() const;  // in file order
    const GgufValue* find(std::string_view key) const;
    Result<std::uint32_t> u32(std::string_view key) const;
    Result<float> f32(std::string_view key) const;  // finite; an f64 is rounded
    Result<bool> boolean(std::string_view key) const;
    Result<std::string_view> string(std::string_view key) const;
    Result<std::optional<std::uint32_t>> find_u32(std::string_view key) const;
    Result<std::optional<float>> find_f32(std::string_view key) const;
    Result<std::optional<bool>> find_boolean(std::string_view key) const;
    Result<std::optional<std::string_view>> find_string(std::string_view key) const;
    // Arrays are copied out; their elements were checked against the file's size before. Those of more than 2^24
    // elements are refused.
    Result<std::vector<std::string_view>> strings(std::string_view key) const;
    Result<std::vector<float>> floats(std::string_view key) const;  // f32 only, all finite
    Result<std::vector<std::int32_t>> integers(
        std::string_view key) const;  // any integer type that fits; bools as 0 and 1

    std::span<const GgufTensor> tensors() const;  // in file order
    const GgufTensor* find_tensor(std::string_view name) const;
    // The tensor, or an error naming it when it is absent or not of exactly this shape.
    Result<TensorView> tensor(std::string_view name, Shape expected) const;

private:
    struct Impl;
    explicit GgufFile(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

// "[576, 49152]": columns first, trailing extents of 1 left out.
std::string shape_text(const Shape& shape);

}  // namespace hearth
