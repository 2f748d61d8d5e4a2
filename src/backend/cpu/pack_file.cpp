#include "backend/cpu/pack_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/hash.h"
#include "base/memory.h"

namespace hearth {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPieceBytes = std::size_t{256} << 10;  // packed and summed at a time, inside the cache
constexpr std::size_t kFetchedAhead = std::size_t{8} << 10;  // a fifth faster than what hardware fetches alone
constexpr char kMagic[8] = {'H', 'E', 'A', 'R', 'T', 'H', 'P', 'K'};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kLongestNote = 8192;  // paths have at most 4,096 bytes

struct Header {
    char magic[8];
    std::uint32_t version;
    std::uint32_t matrices;
    std::uint64_t source;
    std::uint64_t size_bytes;
    char layout[32];
    std::uint64_t checksum;  // of the header, this being zero, and the entries
};

struct Entry {
    std::uint32_t type;
    std::uint32_t panel_rows;
    std::uint64_t rows;
    std::uint64_t columns;
    std::uint64_t offset;
    std::uint64_t panel_bytes;
    std::uint64_t checksum;
};

std::size_t round_to_page(std::size_t bytes) {
    return (bytes + kPage - 1) / kPage * kPage;
}

// Notices damage at the speed of memory: eight independent lanes, each step of a lane a bijection.
std::uint64_t checksum(std::span<const std::byte> bytes) {
    constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;
    std::uint64_t lanes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    std::size_t at = 0;
    for (; at + sizeof lanes <= bytes.size(); at += sizeof lanes) {
        fetch_line(bytes.data() + at + kFetchedAhead);
        std::uint64_t words[8];
        std::memcpy(words, bytes.data() + at, sizeof words);
        for (std::size_t i = 0; i < 8; ++i) lanes[i] = (lanes[i] ^ words[i]) * kOdd;
    }
    std::uint64_t sum = hash_bytes(bytes.subspan(at));
    for (const std::uint64_t lane : lanes) sum = mix64(sum ^ lane);
    return sum;
}

std::size_t panels_per_piece(const PackJob& job) {
    return std::max<std::size_t>(kPieceBytes / job.panel_bytes, 1);
}

std::size_t piece_count(const PackJob& job) {
    return (job.panels + panels_per_piece(job) - 1) / panels_per_piece(job);
}

std::span<const std::byte> piece_of(const PackJob& job, const std::byte* base, std::size_t piece) {
    const std::size_t first = piece * panels_per_piece(job);
    const std::size_t count = std::min(panels_per_piece(job), job.panels - first);
    return {base + job.offset + first * job.panel_bytes, count * job.panel_bytes};
}

// Pieces may be summed in any order.
std::uint64_t piece_sum(std::span<const std::byte> bytes, std::size_t piece) {
    return mix64(checksum(bytes) + piece);
}

std::vector<std::byte> make_head(std::span<const PackJob> jobs, const PackFileKey& key, std::size_t size_bytes) {
    std::vector<std::byte> head(sizeof(Header) + jobs.size() * sizeof(Entry));
    Header header{};
    std::memcpy(header.magic, kMagic, sizeof kMagic);
    header.version = kVersion;
    header.matrices = static_cast<std::uint32_t>(jobs.size());
    header.source = key.source;
    header.size_bytes = size_bytes;
    std::memcpy(header.layout, key.layout.data(), std::min(key.layout.size(), sizeof header.layout));
    std::memcpy(head.data(), &header, sizeof header);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        const PackJob& job = jobs[i];
        const Entry entry{.type = static_cast<std::uint32_t>(job.weight.type),
                          .panel_rows = static_cast<std::uint32_t>(job.kernels->rows),
                          .rows = job.weight.shape.rows(),
                          .columns = job.weight.shape.columns(),
                          .offset = job.offset,
                          .panel_bytes = job.panel_bytes,
                          .checksum = job.checksum};
        std::memcpy(head.data() + sizeof header + i * sizeof entry, &entry, sizeof entry);
    }
    header.checksum = hash_bytes(head);
    std::memcpy(head.data(), &header, sizeof header);
    return head;
}

Error errno_error(const std::string& path) {
    return Error{ErrorCode::Failed, path + ": " + std::strerror(errno)};
}

constexpr std::string_view kNoteEnding = ".whole";
constexpr std::string_view kModelFollows = "of ";  // in a note, as the last of it

std::string draft_path(const std::string& path) {
    return path + ".tmp";
}

std::string note_path(const std::string& path) {
    return path + std::string(kNoteEnding);
}

// What the note says of this very file; empty where the system does not tell when it was started. After a start the
// file is read anew: what was written just before the power failed may not have reached the disk.
std::string note_of(const MappedFile& file, std::string_view model) {
    const Result<std::string> boot = read_file("/proc/sys/kernel/random/boot_id", 128);
    if (!boot.ok()) return {};
    const FileVersion& version = file.version();
    std::string note = "found whole since start " + boot.value();
    for (const std::uint64_t part :
         {version.device, version.inode, std::uint64_t{file.bytes().size()},
          static_cast<std::uint64_t>(version.modified_ns), static_cast<std::uint64_t>(version.changed_ns)}) {
        note += std::to_string(part) + "\n";
    }
    return note.append(kModelFollows).append(model);
}

// The model that a note names; empty: none.
std::string model_of_note(const std::string& note) {
    const std::size_t at = note.find("\n" + std::string(kModelFollows));
    return at == std::string::npos ? "" : note.substr(at + 1 + kModelFollows.size());
}

bool is_noted_whole(const std::string& path, const MappedFile& file, std::string_view model) {
    const std::string note = note_of(file, model);
    const Result<std::string> found = read_file(note_path(path), kLongestNote);
    return !note.empty() && found.ok() && found.value() == note;
}

// A file under a temporary name, mapped for writing; removed unless it is kept. What a process that was killed has left
// is in the place of the next one's.
class Draft {
public:
    explicit Draft(const std::string& path) : path_(path), temporary_(draft_path(path)) {}
    Draft(const Draft&) = delete;
    Draft& operator=(const Draft&) = delete;
    ~Draft() {
        if (data_ != nullptr) ::munmap(data_, size_bytes_);
        if (fd_ >= 0) ::close(fd_);
        if (!kept_) ::unlink(temporary_.c_str());
    }

    Result<std::byte*> open(std::size_t size_bytes) {
        fd_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (fd_ < 0) return errno_error(temporary_);
        // The blocks must be there before they are written through the map: a full disk would be a SIGBUS.
        if (const int fault = ::posix_fallocate(fd_, 0, static_cast<off_t>(size_bytes)); fault != 0) {
            errno = fault;
            return errno_error(temporary_);
        }
        void* address = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
        if (address == MAP_FAILED) return errno_error(temporary_);
        data_ = static_cast<std::byte*>(address);
        size_bytes_ = size_bytes;
        prefer_large_pages({data_, size_bytes_});  // the file stays in memory as it is written now
        return data_;
    }
    Status keep() {
        if (::rename(temporary_.c_str(), path_.c_str()) != 0) return errno_error(path_);
        kept_ = true;
        return {};
    }

private:
    std::string path_;
    std::string temporary_;
    int fd_ = -1;
    std::byte* data_ = nullptr;
    std::size_t size_bytes_ = 0;
    bool kept_ = false;
};

}  // namespace

std::size_t place_jobs(std::span<PackJob> jobs) {
    std::size_t offset = round_to_page(sizeof(Header) + jobs.size() * sizeof(Entry));
    for (PackJob& job : jobs) {
        job.offset = offset;
        offset = round_to_page(offset + job.size_bytes());
    }
    return offset;
}

void pack_matrix(PackJob& job, std::byte* base, ThreadPool& pool,
                 const std::function<void(std::span<const std::byte>)>& release) {
    std::atomic<std::uint64_t> sum{0};
    const auto pack_piece = [&](std::size_t piece) {
        const std::size_t first = piece * panels_per_piece(job);
        const std::size_t last = std::min(first + panels_per_piece(job), job.panels);
        for (std::size_t panel = first; panel < last; ++panel) {
            const std::size_t row = panel * job.kernels->rows;
            job.kernels->pack({.weights = job.weight.row(row),
                               .weight_row_bytes = job.weight.row_bytes(),
                               .rows = std::min(job.kernels->rows, job.weight.shape.rows() - row),
                               .columns = job.weight.shape.columns(),
                               .out = base + job.offset + panel * job.panel_bytes});
        }
        sum.fetch_add(piece_sum(piece_of(job, base, piece), piece), std::memory_order_relaxed);
        if (!release) return;
        const std::size_t first_row = first * job.kernels->rows;
        const std::size_t rows = std::min(last * job.kernels->rows, job.weight.shape.rows()) - first_row;
        release({job.weight.row(first_row), rows * job.weight.row_bytes()});
    };
    // As a phase, and not item by item: each worker is dealt the same share of the rows as when it multiplies with
    // them, and so is the first to touch those pages. On machines of several memory nodes that puts them near it.
    const std::size_t pieces = piece_count(job);
    pool.for_each_phase({&pieces, 1}, [&](std::size_t, std::size_t first, std::size_t last, std::size_t) {
        for (std::size_t piece = first; piece < last; ++piece) pack_piece(piece);
    });
    job.checksum = sum.load();
}

Result<MappedFile> open_pack_file(const std::string& path, std::span<const PackJob> jobs, const PackFileKey& key,
                                  ThreadPool& pool) {
    MappedFile file = TRY(MappedFile::open(path));
    const std::span<const std::byte> bytes = file.bytes();
    prefer_large_pages(bytes);
    const std::size_t head_bytes = sizeof(Header) + jobs.size() * sizeof(Entry);
    Header header;
    if (bytes.size() < head_bytes) return Error{ErrorCode::InvalidModel, path + ": cut short"};
    std::memcpy(&header, bytes.data(), sizeof header);
    // The entries' own checksums are the only thing that is not known beforehand.
    std::vector<PackJob> expected(jobs.begin(), jobs.end());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        Entry entry;
        std::memcpy(&entry, bytes.data() + sizeof header + i * sizeof entry, sizeof entry);
        expected[i].checksum = entry.checksum;
    }
    const std::size_t size_bytes =
        jobs.empty() ? bytes.size() : round_to_page(jobs.back().offset + jobs.back().size_bytes());
    const std::vector<std::byte> head = make_head(expected, key, size_bytes);
    if (bytes.size() != size_bytes || std::memcmp(head.data(), bytes.data(), head.size()) != 0) {
        return Error{ErrorCode::InvalidModel, path + ": made from another model or by another version"};
    }
    if (is_noted_whole(path, file, key.model)) return file;
    const bool changes_show = wait_until_changes_show(file.version());
    for (const PackJob& job : expected) {
        std::atomic<std::uint64_t> sum{0};
        pool.for_each(piece_count(job), [&](std::size_t piece, std::size_t) {
            sum.fetch_add(piece_sum(piece_of(job, bytes.data(), piece), piece), std::memory_order_relaxed);
        });
        if (sum.load() != job.checksum) return Error{ErrorCode::InvalidModel, path + ": damaged"};
    }
    if (changes_show) note_whole(path, file, key.model);
    return file;
}

// Of the note, which is written last.
Result<FileLock> lock_pack_file(const std::string& path, std::chrono::milliseconds patience) {
    const auto end = std::chrono::steady_clock::now() + patience;
    return FileLock::take(note_path(path), [&] { return std::chrono::steady_clock::now() < end; });
}

Result<MappedFile> write_pack_file(const std::string& path, std::span<PackJob> jobs, const PackFileKey& key,
                                   std::size_t size_bytes, const std::function<void(std::byte* base)>& fill) {
    {
        Draft draft(path);
        std::byte* base = TRY(draft.open(size_bytes));
        fill(base);
        const std::vector<std::byte> head = make_head(jobs, key, size_bytes);
        std::memcpy(base, head.data(), head.size());
        TRY(draft.keep());
    }
    MappedFile file = TRY(MappedFile::open(path));
    note_whole(path, file, key.model);
    return file;
}

void note_whole(const std::string& path, const MappedFile& file, std::string_view model) {
    if (!wait_until_changes_show(file.version())) return;
    // A note that is cut short is none, and a missing one costs a check: no need to be sure of it.
    std::ofstream(note_path(path), std::ios::binary | std::ios::trunc) << note_of(file, model);
}

void remove_files_of_lost_models(const std::string& folder) {
    namespace fs = std::filesystem;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        const std::string note = entry->path().string();
        if (!note.ends_with(kNoteEnding)) continue;
        const Result<std::string> text = read_file(note, kLongestNote);
        const std::string model = text.ok() ? model_of_note(text.value()) : "";
        std::error_code unknown;
        if (model.empty() || fs::exists(model, unknown) || unknown) continue;
        const Result<FileLock> lock = FileLock::take(note, [] { return false; });
        if (!lock.ok()) continue;
        const std::string file = note.substr(0, note.size() - kNoteEnding.size());
        fs::remove(file, unknown);
        fs::remove(draft_path(file), unknown);
        fs::remove(note, unknown);
    }
}

}  // namespace hearth
