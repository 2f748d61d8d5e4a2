#include "cli/conversation.h"

#include <ctime>

#include "cli/model_options.h"

namespace hearth {

Conversation::Conversation(std::shared_ptr<Engine> engine, SamplingOptions sampling, std::vector<std::string> stops,
                           GenerateOptions options, std::string system)
    : engine_(std::move(engine)),
      sampling_(std::make_shared<const SamplingOptions>(std::move(sampling))),
      options_(options),
      system_(std::move(system)),
      encoder_(engine_->tokenizer()),
      sequence_(engine_, sampling_, std::make_shared<const StopStrings>(std::move(stops))) {}

std::vector<ChatMessage> Conversation::messages() const {
    std::vector<ChatMessage> all;
    if (!system_.empty()) all.push_back({"system", system_});
    all.insert(all.end(), exchanges_.begin(), exchanges_.end());
    return all;
}

Result<Generation> Conversation::say(const std::string& text, const std::function<bool(std::string_view)>& on_text) {
    const Result<ChatTemplate>& chat_template = engine_->chat_template();
    if (!chat_template.ok()) return chat_template.error();
    std::vector<ChatMessage> all = messages();
    all.push_back({"user", text});
    const double now = static_cast<double>(std::time(nullptr));
    const std::vector<TokenId> prompt = TRY(encoder_.encode(chat_template.value(), all, now));
    Generation generation = TRY(generate(sequence_, prompt, options_, on_text));
    exchanges_.push_back({"user", text});
    exchanges_.push_back({"assistant", generation.text});
    return generation;
}

Result<Generation> Conversation::continue_text(const std::string& text,
                                               const std::function<bool(std::string_view)>& on_text) {
    const std::vector<TokenId> prompt = engine_->tokenizer().encode(text, AddSpecial::No, ParseSpecial::No);
    std::vector<TokenId> tokens;
    // Not AddSpecial::Yes: a text to be continued must not end with EOS.
    if (engine_->tokenizer().adds_bos() && engine_->tokenizer().bos()) tokens.push_back(*engine_->tokenizer().bos());
    tokens.insert(tokens.end(), prompt.begin(), prompt.end());
    return generate(sequence_, tokens, options_, on_text);
}

bool Conversation::undo() {
    if (exchanges_.size() < 2) return false;
    exchanges_.resize(exchanges_.size() - 2);
    return true;
}

void Conversation::clear() {
    exchanges_.clear();
}

void ClosingLine::print(const Generation& generation, const Engine& engine) {
    if (!read_gb_per_s_ && (roof_ == Roof::Always || console_.error_is_terminal()) && generation.decode_steps > 0) {
        read_gb_per_s_ = measure_roof(engine.threads());
    }
    const std::string line =
        closing_line(generation, engine.weight_bytes(), read_gb_per_s_.value_or(0), engine.threads());
    console_.note(console_.for_error(Style::Dim, line));
}

}  // namespace hearth
