// Renders templates for comparison with another engine: each line of standard input is {"template", "context", "now"},
// each line of standard output {"text"} or {"error"}.
#include <iostream>
#include <string>

#include "text/chat_template.h"

namespace {

hearth::Result<std::string> rendered(const std::string& line) {
    const hearth::Json request = TRY(hearth::Json::parse(line, 128));
    const hearth::Json* source = request.find("template");
    const hearth::Json* context = request.find("context");
    const hearth::Json* now = request.find("now");
    if (source == nullptr || source->as_string() == nullptr || context == nullptr) {
        return hearth::Error{hearth::ErrorCode::Usage, "a line needs a template and a context"};
    }
    const hearth::ChatTemplate chat_template = TRY(hearth::ChatTemplate::parse(*source->as_string()));
    return chat_template.render(*context, now != nullptr && now->as_double() != nullptr ? *now->as_double() : 0.0);
}

}  // namespace

int main() {
    std::string line;
    while (std::getline(std::cin, line)) {
        const hearth::Result<std::string> result = rendered(line);
        hearth::Json::Object reply;
        if (result.ok()) {
            reply.emplace_back("text", hearth::Json(result.value()));
        } else {
            reply.emplace_back("error", hearth::Json(result.error().message));
        }
        std::cout << hearth::Json(std::move(reply)).dump() << "\n";
    }
    return 0;
}
