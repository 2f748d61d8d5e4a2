// The API keys of the server. Only hashes are kept, and comparing takes the same time whatever the caller sends.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hearth {

class ApiKeys {
public:
    // An error when a key is empty or could not be sent in a header.
    static Result<ApiKeys> create(const std::vector<std::string>& keys);

    bool empty() const { return entries_.empty(); }

    // The scope of the key sent as "Authorization: Bearer KEY" or as "x-api-key: KEY"; empty when there is no such key.
    // The values are those of the two headers, empty when absent.
    std::string scope_of(std::string_view authorization, std::string_view x_api_key) const;

private:
    using Digest = std::array<unsigned char, 32>;
    struct Entry {
        Digest digest = {};
        std::string scope;  // 16 hex digits of another hash: tells callers apart in logs, says nothing about the key
    };
    static Digest digest_of(std::string_view text);
    std::vector<Entry> entries_;
};

}  // namespace hearth
