#include "text/chat_template.h"

#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"

namespace hearth {

struct ChatTemplate::Impl {
    jinja::Program program;
    TemplateLimits limits;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, TemplateLimits limits) {
    jinja::Program program = TRY(jinja::parse_template(source, limits.depth));
    return ChatTemplate(std::make_unique<Impl>(Impl{std::move(program), limits}));
}

Result<std::string> ChatTemplate::render(const Json& context, double now_seconds) const {
    return jinja::Evaluator(impl_->program, impl_->limits, now_seconds).render(context);
}

Result<std::string> render_chat(const ChatTemplate& chat_template, const Json& messages, const Json& tools_or_null,
                                bool add_generation_prompt, std::string_view bos, std::string_view eos,
                                double now_seconds) {
    Json::Object context;
    context.emplace_back("messages", messages);
    context.emplace_back("tools", tools_or_null);
    context.emplace_back("documents", Json());
    context.emplace_back("add_generation_prompt", Json(add_generation_prompt));
    context.emplace_back("bos_token", Json(bos));
    context.emplace_back("eos_token", Json(eos));
    return chat_template.render(Json(std::move(context)), now_seconds);
}

}  // namespace hearth
