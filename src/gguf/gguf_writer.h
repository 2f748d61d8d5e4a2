// Writes GGUF version 3. Metadata and tensors are declared first, then tensor data streams through in the declared
// order; the target appears, complete, only when finish() succeeds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gguf/gguf.h"
#include "tensor/tensor.h"

namespace hearth {

class GgufWriter {
public:
    // Opens a temporary beside PATH. `alignment`: a power of two from 8 to 65536.
    static Result<GgufWriter> create(const std::string& path, std::uint32_t alignment = 32);
    GgufWriter(GgufWriter&&) noexcept;
    GgufWriter& operator=(GgufWriter&&) noexcept;
    ~GgufWriter();  // without a finish(): the temporary is removed, PATH stays as it was

    // Metadata. Setting a key again replaces its value in place. A bad key is remembered and returned by the next
    // append() or finish(), so that callers need not check each line.
    void set_u8(std::string_view key, std::uint8_t value);
    void set_i8(std::string_view key, std::int8_t value);
    void set_u16(std::string_view key, std::uint16_t value);
    void set_i16(std::string_view key, std::int16_t value);
    void set_u32(std::string_view key, std::uint32_t value);
    void set_i32(std::string_view key, std::int32_t value);
    void set_u64(std::string_view key, std::uint64_t value);
    void set_i64(std::string_view key, std::int64_t value);
    void set_f32(std::string_view key, float value);
    void set_f64(std::string_view key, double value);
    void set_boolean(std::string_view key, bool value);
    void set_string(std::string_view key, std::string_view value);
    void set_strings(std::string_view key, std::span<const std::string_view> values);
    void set_floats(std::string_view key, std::span<const float> values);
    void set_integers(std::string_view key, std::span<const std::int32_t> values);
    void set_value(std::string_view key, const GgufValue& value);  // any type, as it lies in a file
    // Everything but the alignment, which is the writer's own, and the keys of split models: the copy is one file.
    void copy_metadata(const GgufFile& from);
    void remove(std::string_view key);

    // Declares the next tensor. Not after the first append().
    void declare_tensor(std::string_view name, DType type, const Shape& shape);

    // Continues the tensor that is being written; padding between tensors is added here. The bytes of one call must
    // belong to one tensor.
    Status append(std::span<const std::byte> data);
    // Flushes to the disk and renames. An error when a declared tensor has not come completely.
    Status finish();

private:
    struct Impl;
    explicit GgufWriter(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace hearth
