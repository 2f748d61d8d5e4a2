// A conversation with a model: messages, the sequence that holds their tokens, one answer after the other. Only what
// is new is computed: the sequence goes back to the first token that differs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/generate.h"
#include "cli/session.h"
#include "text/chat_prompt.h"

namespace hearth {

class Conversation {
public:
    Conversation(std::shared_ptr<Engine> engine, SamplingOptions sampling, std::vector<std::string> stops,
                 GenerateOptions options, std::string system);

    // Adds what the user says and the model's answer. On an error the conversation is as before.
    Result<Generation> say(const std::string& text, const std::function<bool(std::string_view)>& on_text);
    // Continues a bare text, no template: only as a first and single exchange.
    Result<Generation> continue_text(const std::string& text, const std::function<bool(std::string_view)>& on_text);

    bool undo();   // forgets the last exchange; false when there is none
    void clear();  // forgets all but the system message
    void set_system(std::string system) { system_ = std::move(system); }
    const std::string& system() const { return system_; }
    std::vector<ChatMessage> messages() const;  // with the system message

    Engine& engine() { return *engine_; }
    std::uint64_t seed() const { return sampling_->seed; }

private:
    std::shared_ptr<Engine> engine_;
    std::shared_ptr<const SamplingOptions> sampling_;
    GenerateOptions options_;
    std::string system_;
    ChatEncoder encoder_;
    Sequence sequence_;
    std::vector<ChatMessage> exchanges_;  // user, assistant, user, assistant, ...
};

// Talks on the terminal until the user leaves.
Status chat(Conversation& conversation, const std::string& model, Session& session);

// The closing line of an answer on standard error; the memory roof is measured once, and only for a terminal.
class ClosingLine {
public:
    enum class Roof : bool { WhenTerminal, Always };
    ClosingLine(Console& console, Roof roof) : console_(console), roof_(roof) {}
    void print(const Generation& generation, const Engine& engine);

private:
    Console& console_;
    Roof roof_;
    std::optional<double> read_gb_per_s_;
};

}  // namespace hearth
