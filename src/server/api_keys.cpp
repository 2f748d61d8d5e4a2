// See api_keys.h.
#include "server/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstddef>

#include "server/http_rules.h"

namespace hearth {

ApiKeys::Digest ApiKeys::digest_of(std::string_view text) {
    Digest digest = {};
    SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
    return digest;
}

Result<ApiKeys> ApiKeys::create(const std::vector<std::string>& keys) {
    ApiKeys ring;
    for (const std::string& key : keys) {
        const bool sendable = std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 0x7f; });
        if (key.empty() || !sendable) {
            return Error{ErrorCode::Usage, "an API key must be printable ASCII without spaces, and not empty"};
        }
        const Digest scope = digest_of("hearth key scope\n" + key);
        Entry entry{digest_of(key), ""};
        for (std::size_t i = 0; i < 8; ++i) {
            constexpr std::string_view kDigits = "0123456789abcdef";
            entry.scope += kDigits[scope[i] >> 4];
            entry.scope += kDigits[scope[i] & 15];
        }
        ring.entries_.push_back(std::move(entry));
    }
    return ring;
}

std::string ApiKeys::scope_of(std::string_view authorization, std::string_view x_api_key) const {
    std::string_view sent = x_api_key;
    constexpr std::string_view kBearer = "bearer ";
    if (authorization.size() > kBearer.size() && to_lower(authorization.substr(0, kBearer.size())) == kBearer) {
        sent = trim_spaces(authorization.substr(kBearer.size()));
    }
    if (sent.empty()) return "";
    const Digest digest = digest_of(sent);
    const Entry* found = nullptr;
    for (const Entry& entry : entries_) {  // all of them: the time must not tell which one matched
        if (CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) == 0) found = &entry;
    }
    return found ? found->scope : "";
}

}  // namespace hearth
