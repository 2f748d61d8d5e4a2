#include <list>
#include <mutex>
#include <string>
#include <utility>

#include "text/grammar.h"

namespace hearth {

struct GrammarCache::Impl {
    struct Item {
        std::string key;
        std::shared_ptr<const Grammar> grammar;
    };

    explicit Impl(std::size_t bytes) : capacity_bytes(bytes) {}

    std::shared_ptr<const Grammar> find(const std::string& key) {
        const std::lock_guard lock(mutex);
        for (auto item = items.begin(); item != items.end(); ++item) {
            if (item->key != key) continue;
            items.splice(items.begin(), items, item);
            return item->grammar;
        }
        return nullptr;
    }

    void add(std::string key, std::shared_ptr<const Grammar> grammar) {
        const std::lock_guard lock(mutex);
        items.push_front({std::move(key), std::move(grammar)});
        std::size_t sum = 0;
        // Sizes change as answers end, so they are asked for each time. The new one stays, whatever its size.
        for (auto item = items.begin(); item != items.end();) {
            sum += item->key.size() + item->grammar->size_bytes();
            const bool keep = item == items.begin() || (sum <= capacity_bytes && items.size() <= kItems);
            item = keep ? std::next(item) : items.erase(item);
        }
    }

    static constexpr std::size_t kItems = 256;
    std::size_t capacity_bytes;
    mutable std::mutex mutex;
    std::list<Item> items;  // latest use first
};

GrammarCache::GrammarCache(std::size_t capacity_bytes) : impl_(std::make_unique<Impl>(capacity_bytes)) {}
GrammarCache::~GrammarCache() = default;

std::size_t GrammarCache::size() const {
    const std::lock_guard lock(impl_->mutex);
    return impl_->items.size();
}

namespace {

// Limits are part of the key: what one caller may have, another may not.
std::string key_of(std::string_view kind, std::string_view source, const GrammarLimits& limits) {
    std::string key(kind);
    for (const std::size_t limit : {limits.source_bytes, limits.depth, limits.rules, limits.nodes}) {
        key += ' ' + std::to_string(limit);
    }
    return key.append(1, '\n').append(source);
}

}  // namespace

Result<std::shared_ptr<const Grammar>> GrammarCache::from_gbnf(std::string_view source, const GrammarLimits& limits) {
    if (source.size() > limits.source_bytes) return Grammar::from_gbnf(source, limits);  // which refuses
    std::string key = key_of("gbnf", source, limits);
    if (std::shared_ptr<const Grammar> found = impl_->find(key)) return found;
    std::shared_ptr<const Grammar> made = TRY(Grammar::from_gbnf(source, limits));
    impl_->add(std::move(key), made);
    return made;
}

Result<std::shared_ptr<const Grammar>> GrammarCache::from_json_schema(const Json& schema, const GrammarLimits& limits) {
    std::string key = key_of("schema", schema.dump(), limits);
    if (std::shared_ptr<const Grammar> found = impl_->find(key)) return found;
    std::shared_ptr<const Grammar> made = TRY(Grammar::from_json_schema(schema, limits));
    impl_->add(std::move(key), made);
    return made;
}

std::shared_ptr<const Grammar> GrammarCache::json_object() {
    if (std::shared_ptr<const Grammar> found = impl_->find("object")) return found;
    std::shared_ptr<const Grammar> made = Grammar::json_object();
    impl_->add("object", made);
    return made;
}

}  // namespace hearth
