// Chat templates: a bounded Jinja. A template is foreign code, so depth, steps and output are limited, and a fault is
// an error of the template, never of the process.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace hearth {

struct TemplateLimits {
    std::size_t depth = 200;        // nested blocks, expressions and calls
    std::size_t steps = 2'000'000;  // evaluated nodes
    std::size_t output_bytes = 16 << 20;
};

class ChatTemplate {
public:
    static Result<ChatTemplate> parse(std::string_view source, TemplateLimits limits = {});
    ChatTemplate(ChatTemplate&&) noexcept;
    ChatTemplate& operator=(ChatTemplate&&) noexcept;
    ~ChatTemplate();

    // `context` is an object of the variables a template sees: messages, tools, add_generation_prompt, bos_token, ...
    // Functions provided: raise_exception, strftime_now (from `now_seconds`, seconds since the epoch, UTC), range,
    // namespace.
    Result<std::string> render(const Json& context, double now_seconds) const;

private:
    struct Impl;
    explicit ChatTemplate(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

// Renders with the variables the model hubs give: messages, tools and documents (none when absent, as there), the
// generation prompt, and the two special tokens.
Result<std::string> render_chat(const ChatTemplate& chat_template, const Json& messages, const Json& tools_or_null,
                                bool add_generation_prompt, std::string_view bos, std::string_view eos,
                                double now_seconds);

}  // namespace hearth
