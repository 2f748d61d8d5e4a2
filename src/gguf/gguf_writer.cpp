#include "gguf/gguf_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "gguf/format.h"

namespace hearth {

using namespace gguf_format;

namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 18;

void put_bytes(std::string& out, std::span<const std::byte> bytes) {
    out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

template <typename T>
void put(std::string& out, T value) {
    put_bytes(out, std::as_bytes(std::span(&value, 1)));
}

void put_string(std::string& out, std::string_view text) {
    put(out, static_cast<std::uint64_t>(text.size()));
    out += text;
}

template <typename T>
std::string encode_scalar(GgufType type, T value) {
    std::string out;
    put(out, static_cast<std::uint32_t>(type));
    put(out, value);
    return out;
}

std::string encode_array_head(GgufType element_type, std::uint64_t count) {
    std::string out;
    put(out, static_cast<std::uint32_t>(GgufType::Array));
    put(out, static_cast<std::uint32_t>(element_type));
    put(out, count);
    return out;
}

}  // namespace

struct GgufWriter::Impl {
    struct Key {
        std::string name;
        std::string encoded;  // type and payload; empty when removed
    };
    struct Tensor {
        std::string name;
        DType type = DType::F32;
        Shape shape;
        std::uint64_t size_bytes = 0;
        std::uint64_t offset = 0;  // from the beginning of the data
    };

    std::string path;
    std::string temporary;
    int fd = -1;
    std::uint64_t alignment = kDefaultAlignment;
    std::vector<Key> keys;
    std::map<std::string, std::size_t, std::less<>> key_index;
    std::vector<Tensor> tensors;
    std::map<std::string, std::size_t, std::less<>> tensor_index;
    std::uint64_t data_bytes = 0;  // of the declared tensors, with padding
    std::optional<Error> fault;    // the first one; nothing is written after it
    bool header_written = false;
    std::size_t current = 0;     // the tensor being written
    std::uint64_t progress = 0;  // bytes of it
    std::string buffer;

    ~Impl() { discard(); }

    void discard() {
        if (fd >= 0) ::close(fd);
        fd = -1;
        if (!temporary.empty()) ::unlink(temporary.c_str());
        temporary.clear();
    }
    Error io_error(const std::string& file) const {
        const int reason = errno;
        const bool full = reason == ENOSPC || reason == EDQUOT || reason == EFBIG;
        return Error{full ? ErrorCode::OutOfResources : ErrorCode::Failed, file + ": " + std::strerror(reason)};
    }
    void complain(const std::string& what) {
        if (!fault) fault = Error{ErrorCode::Failed, path + ": " + what};
    }

    void set(std::string_view key, std::string encoded) {
        if (header_written) return complain("key '" + std::string(key) + "' comes after the first data");
        const char* wrong = name_fault(key);
        if (wrong != nullptr) return complain("metadata key " + std::to_string(keys.size()) + " " + wrong);
        const auto [at, fresh] = key_index.try_emplace(std::string(key), keys.size());
        if (fresh) {
            keys.push_back({std::string(key), std::move(encoded)});
        } else {
            keys[at->second].encoded = std::move(encoded);
        }
    }

    Status flush() {
        std::size_t done = 0;
        while (done < buffer.size()) {
            const ssize_t put = ::write(fd, buffer.data() + done, buffer.size() - done);
            if (put < 0 && errno == EINTR) continue;
            if (put < 0) return io_error(temporary);
            done += static_cast<std::size_t>(put);
        }
        buffer.clear();
        return {};
    }
    Status write(std::span<const std::byte> bytes) {
        while (!bytes.empty()) {
            const std::size_t room = std::min(bytes.size(), kBufferBytes - buffer.size());
            put_bytes(buffer, bytes.first(room));
            bytes = bytes.subspan(room);
            if (buffer.size() == kBufferBytes) TRY(flush());
        }
        return {};
    }
    Status write_zeros(std::uint64_t count) {
        const std::string zeros(static_cast<std::size_t>(count), '\0');
        return write(std::as_bytes(std::span(zeros)));
    }
    Status write_header();
    Status append(std::span<const std::byte> data);
    Status finish();
    // After a failure the writer is dead: the temporary goes, later calls repeat the error.
    Status settle(Status status) {
        if (status.ok()) return status;
        if (!fault) fault = status.error();
        discard();
        return status;
    }
};

Status GgufWriter::Impl::write_header() {
    // Always what the file really has, whatever a caller set.
    if (alignment != kDefaultAlignment || key_index.contains(kAlignmentKey)) {
        set(kAlignmentKey, encode_scalar(GgufType::U32, static_cast<std::uint32_t>(alignment)));
    }
    header_written = true;
    const auto removed = [](const Key& key) { return key.encoded.empty(); };
    std::string head(kMagic);
    put(head, kNewestVersion);
    put(head, static_cast<std::uint64_t>(tensors.size()));
    put(head,
        static_cast<std::uint64_t>(keys.size()) - static_cast<std::uint64_t>(std::ranges::count_if(keys, removed)));
    std::uint64_t position = head.size();
    TRY(write(std::as_bytes(std::span(head))));
    for (const Key& key : keys) {
        if (removed(key)) continue;
        head.clear();
        put_string(head, key.name);
        position += head.size() + key.encoded.size();
        TRY(write(std::as_bytes(std::span(head))));
        TRY(write(std::as_bytes(std::span(key.encoded))));
    }
    for (const Tensor& tensor : tensors) {
        head.clear();
        put_string(head, tensor.name);
        std::size_t rank = kDimensionLimit;
        while (rank > 1 && tensor.shape.extent[rank - 1] == 1) --rank;
        put(head, static_cast<std::uint32_t>(rank));
        for (std::size_t d = 0; d < rank; ++d) put(head, static_cast<std::uint64_t>(tensor.shape.extent[d]));
        put(head, static_cast<std::uint32_t>(tensor.type));
        put(head, tensor.offset);
        position += head.size();
        TRY(write(std::as_bytes(std::span(head))));
    }
    // Without tensors there is no data to align.
    return tensors.empty() ? Status() : write_zeros(align_up(position, alignment) - position);
}

Status GgufWriter::Impl::append(std::span<const std::byte> data) {
    if (fault) return *fault;
    if (!header_written) TRY(write_header());
    if (fault) return *fault;
    if (data.empty()) return {};
    if (current == tensors.size()) return Error{ErrorCode::Failed, path + ": data behind the last tensor"};
    const Tensor& tensor = tensors[current];
    if (data.size() > tensor.size_bytes - progress) {
        return Error{ErrorCode::Failed, path + ": more data than tensor '" + tensor.name + "' has room for"};
    }
    TRY(write(data));
    progress += data.size();
    if (progress < tensor.size_bytes) return {};
    ++current;
    progress = 0;
    return write_zeros(align_up(tensor.size_bytes, alignment) - tensor.size_bytes);
}

Status GgufWriter::Impl::finish() {
    TRY(append({}));
    if (current < tensors.size()) {
        return Error{ErrorCode::Failed, path + ": the data of tensor '" + tensors[current].name + "' is not complete"};
    }
    TRY(flush());
    if (::fsync(fd) != 0) return io_error(temporary);
    const int closed = ::close(std::exchange(fd, -1));
    if (closed != 0) return io_error(temporary);
    if (::rename(temporary.c_str(), path.c_str()) != 0) return io_error(path);
    temporary.clear();
    fault = Error{ErrorCode::Failed, path + ": already finished"};
    // The rename itself must survive a power cut too. Not every file system lets a folder be synced: no error then.
    const std::size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const int folder_fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_fd >= 0) {
        ::fsync(folder_fd);
        ::close(folder_fd);
    }
    return {};
}

Result<GgufWriter> GgufWriter::create(const std::string& path, std::uint32_t alignment) {
    auto impl = std::make_unique<Impl>();
    impl->path = path;
    impl->alignment = alignment;
    if (alignment < kSmallestAlignment || alignment > kLargestAlignment || !std::has_single_bit(alignment)) {
        return Error{ErrorCode::Usage, path + ": the alignment must be a power of two from 8 to 65536"};
    }
    struct stat info {};
    // Said now, not after hours of quantising. A device would be replaced by the rename, which nobody wants either.
    if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
        return Error{ErrorCode::Failed, path + (S_ISDIR(info.st_mode) ? ": is a directory" : ": not a regular file")};
    }
    for (int attempt = 0; impl->fd < 0; ++attempt) {
        const std::string name = path + ".tmp" + std::to_string(::getpid()) + "-" + std::to_string(attempt);
        impl->fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (impl->fd >= 0) {
            impl->temporary = name;
        } else if (errno != EEXIST || attempt == 99) {
            return impl->io_error(name);
        }
    }
    impl->buffer.reserve(kBufferBytes);
    return GgufWriter(std::move(impl));
}

GgufWriter::GgufWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GgufWriter::GgufWriter(GgufWriter&&) noexcept = default;
GgufWriter& GgufWriter::operator=(GgufWriter&&) noexcept = default;
GgufWriter::~GgufWriter() = default;

void GgufWriter::set_u8(std::string_view key, std::uint8_t value) {
    impl_->set(key, encode_scalar(GgufType::U8, value));
}
void GgufWriter::set_i8(std::string_view key, std::int8_t value) {
    impl_->set(key, encode_scalar(GgufType::I8, value));
}
void GgufWriter::set_u16(std::string_view key, std::uint16_t value) {
    impl_->set(key, encode_scalar(GgufType::U16, value));
}
void GgufWriter::set_i16(std::string_view key, std::int16_t value) {
    impl_->set(key, encode_scalar(GgufType::I16, value));
}
void GgufWriter::set_u32(std::string_view key, std::uint32_t value) {
    impl_->set(key, encode_scalar(GgufType::U32, value));
}
void GgufWriter::set_i32(std::string_view key, std::int32_t value) {
    impl_->set(key, encode_scalar(GgufType::I32, value));
}
void GgufWriter::set_u64(std::string_view key, std::uint64_t value) {
    impl_->set(key, encode_scalar(GgufType::U64, value));
}
void GgufWriter::set_i64(std::string_view key, std::int64_t value) {
    impl_->set(key, encode_scalar(GgufType::I64, value));
}
void GgufWriter::set_f32(std::string_view key, float value) {
    impl_->set(key, encode_scalar(GgufType::F32, value));
}
void GgufWriter::set_f64(std::string_view key, double value) {
    impl_->set(key, encode_scalar(GgufType::F64, value));
}
void GgufWriter::set_boolean(std::string_view key, bool value) {
    impl_->set(key, encode_scalar(GgufType::Bool, static_cast<std::uint8_t>(value ? 1 : 0)));
}

void GgufWriter::set_string(std::string_view key, std::string_view value) {
    std::string out;
    put(out, static_cast<std::uint32_t>(GgufType::String));
    put_string(out, value);
    impl_->set(key, std::move(out));
}

void GgufWriter::set_strings(std::string_view key, std::span<const std::string_view> values) {
    std::string out = encode_array_head(GgufType::String, values.size());
    for (const std::string_view value : values) put_string(out, value);
    impl_->set(key, std::move(out));
}

void GgufWriter::set_floats(std::string_view key, std::span<const float> values) {
    std::string out = encode_array_head(GgufType::F32, values.size());
    put_bytes(out, std::as_bytes(values));
    impl_->set(key, std::move(out));
}

void GgufWriter::set_integers(std::string_view key, std::span<const std::int32_t> values) {
    std::string out = encode_array_head(GgufType::I32, values.size());
    put_bytes(out, std::as_bytes(values));
    impl_->set(key, std::move(out));
}

void GgufWriter::set_value(std::string_view key, const GgufValue& value) {
    std::string out;
    if (value.type == GgufType::Array) {
        out = encode_array_head(value.element_type, value.count);
    } else {
        put(out, static_cast<std::uint32_t>(value.type));
        if (value.type == GgufType::String) put(out, static_cast<std::uint64_t>(value.data.size()));
    }
    put_bytes(out, value.data);
    impl_->set(key, std::move(out));
}

void GgufWriter::copy_metadata(const GgufFile& from) {
    for (const std::string_view key : from.keys()) {
        if (key == kAlignmentKey || key == kSplitNumberKey || key == kSplitCountKey || key == kSplitTensorsKey)
            continue;
        set_value(key, *from.find(key));
    }
}

void GgufWriter::remove(std::string_view key) {
    if (impl_->key_index.contains(key)) impl_->set(key, std::string());
}

void GgufWriter::declare_tensor(std::string_view name, DType type, const Shape& shape) {
    if (impl_->header_written) return impl_->complain("tensor '" + std::string(name) + "' comes after the first data");
    const char* wrong = name_fault(name);
    if (wrong != nullptr) {
        return impl_->complain("the name of tensor " + std::to_string(impl_->tensors.size()) + " " + wrong);
    }
    const DTypeTraits& facts = traits(type);
    std::int64_t elements = 1;
    bool possible = shape.columns() % facts.block_elements == 0;
    for (const std::size_t extent : shape.extent) {
        possible = possible && extent > 0 && !__builtin_mul_overflow(elements, extent, &elements);
    }
    Impl::Tensor tensor{std::string(name), type, shape, 0, impl_->data_bytes};
    std::int64_t size_bytes = 0;
    std::int64_t end = 0;  // signed, so that padding it up stays below 2^64
    possible = possible &&
               !__builtin_mul_overflow(static_cast<std::uint64_t>(elements) / facts.block_elements, facts.block_bytes,
                                       &size_bytes) &&
               !__builtin_add_overflow(size_bytes, impl_->data_bytes, &end);
    if (!possible) {
        return impl_->complain("tensor '" + tensor.name + "' cannot have the shape " + shape_text(shape) +
                               " with type " + std::string(facts.name));
    }
    if (!impl_->tensor_index.try_emplace(tensor.name, impl_->tensors.size()).second) {
        return impl_->complain("tensor '" + tensor.name + "' occurs twice");
    }
    tensor.size_bytes = static_cast<std::uint64_t>(size_bytes);
    impl_->data_bytes = align_up(static_cast<std::uint64_t>(end), impl_->alignment);
    impl_->tensors.push_back(std::move(tensor));
}

Status GgufWriter::append(std::span<const std::byte> data) {
    return impl_->settle(impl_->append(data));
}
Status GgufWriter::finish() {
    return impl_->settle(impl_->finish());
}

}  // namespace hearth
