// Entries by integer key, in pages made when first written; what was never written reads as zero. Copies share pages
// until one of them writes, so that keeping many states of one run costs what changed between them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace hearth::vm {

inline constexpr std::int64_t kKeyLimit = std::int64_t{1} << 27;

template <typename Number>
class KeyedTable {
public:
    explicit KeyedTable(std::size_t columns) : columns_(columns) {}
    Number* write(std::uint64_t key) {
        const std::size_t index = static_cast<std::size_t>(key >> kPageBits);
        if (index >= pages_.size()) pages_.resize(index + 1);
        Page& page = pages_[index];
        if (!page.own) take(page);
        return page.numbers.get() + (key & kPageMask) * columns_;
    }
    const Number* read(std::uint64_t key) const {
        const std::uint64_t index = key >> kPageBits;
        if (index >= pages_.size() || pages_[static_cast<std::size_t>(index)].numbers == nullptr) return nullptr;
        return pages_[static_cast<std::size_t>(index)].numbers.get() + (key & kPageMask) * columns_;
    }
    std::size_t page_count() const { return pages_.size(); }
    const Number* page(std::size_t index) const { return pages_[index].numbers.get(); }
    Number* make_page(std::size_t index) { return write(std::uint64_t{index} << kPageBits); }
    std::size_t page_numbers() const { return columns_ << kPageBits; }

    // Pages written from now on are copied first: they may be in other tables.
    void freeze() {
        for (Page& page : pages_) page.own = false;
    }
    // Pages that are frozen are shared, the others copied.
    KeyedTable clone() const {
        KeyedTable copy(columns_);
        copy.pages_ = pages_;
        for (Page& page : copy.pages_) {
            if (page.own) copy.take(page);
        }
        return copy;
    }
    bool same(const KeyedTable& other) const {
        if (pages_.size() != other.pages_.size()) return false;
        for (std::size_t i = 0; i < pages_.size(); ++i) {
            const Number* mine = page(i);
            const Number* theirs = other.page(i);
            if (mine == theirs) continue;
            if (mine == nullptr || theirs == nullptr || !std::equal(mine, mine + page_numbers(), theirs)) return false;
        }
        return true;
    }

    static constexpr int kPageBits = 7;

private:
    static constexpr std::uint64_t kPageMask = (1u << kPageBits) - 1;
    struct Page {
        std::shared_ptr<Number[]> numbers;
        bool own = false;  // in no other table
    };
    void take(Page& page) {
        const std::shared_ptr<Number[]> shared = std::move(page.numbers);
        page.numbers = std::make_shared<Number[]>(page_numbers());
        if (shared != nullptr) std::copy(shared.get(), shared.get() + page_numbers(), page.numbers.get());
        page.own = true;
    }

    std::size_t columns_;
    std::vector<Page> pages_;
};

inline constexpr std::uint32_t kMaxKeyPages = static_cast<std::uint32_t>(kKeyLimit >> KeyedTable<double>::kPageBits);

}  // namespace hearth::vm
