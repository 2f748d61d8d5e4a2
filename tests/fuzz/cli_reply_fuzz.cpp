// Bytes as a server's answer and as its address: an error, or a status of three digits and an address that reads back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "cli/http_client.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace hearth;
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const Result<ServerReply> reply = parse_reply(bytes);
    if (reply.ok()) {
        if (reply->status > 999) std::abort();
        error_text(reply.value());
    }
    const Result<ServerAddress> address = ServerAddress::parse(bytes);
    if (address.ok()) {
        const Result<ServerAddress> again = ServerAddress::parse(address->shown());
        if (!again.ok() || again->host != address->host || again->port != address->port) std::abort();
    }
    return 0;
}
