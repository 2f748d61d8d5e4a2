// Chat templates from foreign bytes: parse and render under small limits. The first byte says how the rest is divided
// into the template and one text the template sees as `x`.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
    const std::size_t source_size = rest.size() - rest.size() * (data[0] % 16) / 32;
    hearth::TemplateLimits limits;
    limits.depth = 60;
    limits.steps = 20'000;
    limits.output_bytes = 1 << 16;
    const hearth::Result<hearth::ChatTemplate> parsed =
        hearth::ChatTemplate::parse(rest.substr(0, source_size), limits);
    if (!parsed.ok()) {
        if (!parsed.error().message.starts_with("chat template, line ")) std::abort();
        return 0;
    }
    static const hearth::Json messages =
        hearth::Json::parse(R"([{"role": "system", "content": "S"}, {"role": "user", "content": "ü 👍"},
            {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5]}}}]}])")
            .value();
    hearth::Json::Object context;
    context.emplace_back("messages", messages);
    context.emplace_back("x", hearth::Json(rest.substr(source_size)));
    context.emplace_back("n", hearth::Json(7));
    context.emplace_back("add_generation_prompt", hearth::Json(true));
    const hearth::Result<std::string> text = parsed->render(hearth::Json(std::move(context)), 1e9);
    if (!text.ok() && text.error().message.find('\n') != std::string::npos) std::abort();
    if (text.ok() && text.value().size() > limits.output_bytes) std::abort();
    return 0;
}
