// The interactive chat: plain lines, a few commands, Ctrl-C stops an answer.
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "base/json.h"
#include "base/mapped_file.h"
#include "cli/conversation.h"
#include "cli/interrupt.h"
#include "cli/options.h"

namespace hearth {

namespace {

constexpr std::string_view kHelp =
    "/help           this list\n"
    "/clear          forget the conversation\n"
    "/undo           forget the last exchange\n"
    "/system [TEXT]  set the system message (without TEXT: show it)\n"
    "/save FILE      write the conversation as JSON\n"
    "/quit           leave (or Ctrl-D)\n"
    "A line ending in \\ goes on in the next; \"\"\" begins and ends a text of several lines.\n"
    "Ctrl-C stops an answer.\n";
constexpr std::string_view kCommands[] = {"/help", "/clear", "/undo", "/system", "/save", "/quit"};

constexpr int kInterruptCheckMilliseconds = 100;

enum class LineEnd : std::uint8_t { Line, EndOfInput, Interrupted };

// Reads lines from standard input; an interrupt ends the wait.
class LineReader {
public:
    LineEnd read(std::string& line) {
        for (;;) {
            if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
                line = buffer_.substr(0, end);
                buffer_.erase(0, end + 1);
                return LineEnd::Line;
            }
            // Not a plain read: a Ctrl-C just before it, or taken by a worker thread, would not end it.
            if (InterruptScope::requested()) {
                InterruptScope::clear();
                buffer_.clear();
                return LineEnd::Interrupted;
            }
            struct pollfd wait {
                STDIN_FILENO, POLLIN, 0
            };
            if (::poll(&wait, 1, kInterruptCheckMilliseconds) <= 0) continue;
            char chunk[4096];
            const ssize_t got = ::read(STDIN_FILENO, chunk, sizeof chunk);
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) return LineEnd::EndOfInput;
            buffer_.append(chunk, static_cast<std::size_t>(got));
        }
    }

private:
    std::string buffer_;
};

class Chat {
public:
    Chat(Conversation& conversation, std::string model, Session& session)
        : conversation_(conversation),
          model_(std::move(model)),
          console_(session.console),
          closing_line_(session.console, ClosingLine::Roof::WhenTerminal) {}

    Status run() {
        console_.note("chatting with " + console_.for_error(Style::Bold, model_) + " · " +
                      std::to_string(conversation_.engine().context()) + " tokens of context · /help lists commands");
        const InterruptScope interrupts;
        int interrupts_in_a_row = 0;
        for (;;) {
            std::string text;
            const LineEnd end = read_message(text);
            if (end == LineEnd::EndOfInput) {
                console_.write_error("\n");
                return {};
            }
            if (end == LineEnd::Interrupted) {
                console_.write_error("\n");
                if (++interrupts_in_a_row >= 2) return {};
                console_.note(console_.for_error(Style::Dim, "Ctrl-C again, or Ctrl-D, to leave"));
                continue;
            }
            interrupts_in_a_row = 0;
            if (text.find_first_not_of(" \t\n") == std::string::npos) continue;
            if (text.front() == '/' && text.find('\n') == std::string::npos) {
                if (!command(text)) return {};
                continue;
            }
            if (answer(text) == StopReason::Interrupted) interrupts_in_a_row = 1;
            if (console_.output_closed()) return {};
        }
    }

private:
    LineEnd read_message(std::string& text) {
        std::string line;
        console_.write_error(console_.for_error(Style::Green, "> "));
        LineEnd end = reader_.read(line);
        if (end != LineEnd::Line) return end;
        if (line.starts_with("\"\"\"")) return read_block(line.substr(3), text);
        while (line.ends_with('\\')) {
            line.pop_back();
            text += line + "\n";
            console_.write_error(console_.for_error(Style::Green, ". "));
            end = reader_.read(line);
            if (end != LineEnd::Line) return end;
        }
        text += line;
        return LineEnd::Line;
    }

    LineEnd read_block(std::string line, std::string& text) {
        for (;;) {
            if (const std::size_t close = line.find("\"\"\""); close != std::string::npos) {
                text += line.substr(0, close);
                return LineEnd::Line;
            }
            if (!(text.empty() && line.empty())) text += line + "\n";
            console_.write_error(console_.for_error(Style::Green, ". "));
            if (const LineEnd end = reader_.read(line); end != LineEnd::Line) return end;
        }
    }

    StopReason answer(const std::string& text) {
        InterruptScope::clear();
        const Result<Generation> generation = conversation_.say(text, [&](std::string_view piece) {
            console_.print(piece);
            return !console_.output_closed();
        });
        if (!generation.ok()) {
            console_.note(console_.for_error(Style::Red, "hearth: ") + generation.error().message);
            return StopReason::End;
        }
        console_.print("\n");
        if (generation->reason == StopReason::Context) {
            console_.note("the context is full: the answer ends here (/clear begins anew)");
        }
        closing_line_.print(generation.value(), conversation_.engine());
        const StopReason reason = generation->reason;
        InterruptScope::clear();
        return reason;
    }

    // False: leave.
    bool command(const std::string& line) {
        const std::size_t space = std::min(line.find(' '), line.size());
        const std::string name = line.substr(0, space);
        const std::string rest = space < line.size() ? line.substr(space + 1) : "";
        if (name == "/quit" || name == "/exit" || name == "/bye") return false;
        if (name == "/help") {
            console_.write_error(kHelp);
        } else if (name == "/clear") {
            conversation_.clear();
            console_.note("forgotten");
        } else if (name == "/undo") {
            console_.note(conversation_.undo() ? "the last exchange is forgotten" : "there is nothing to forget");
        } else if (name == "/system") {
            if (!rest.empty()) conversation_.set_system(rest);
            console_.note(conversation_.system().empty() ? "no system message" : "system: " + conversation_.system());
        } else if (name == "/save") {
            save(rest);
        } else {
            console_.note("unknown command " + name + suggestion(name, kCommands) + "; /help lists them");
        }
        return true;
    }

    void save(const std::string& path) {
        if (path.empty()) return console_.note("/save needs a file name");
        Json::Array list;
        for (const ChatMessage& message : conversation_.messages()) {
            list.push_back(Json::Object{{"role", message.role}, {"content", message.content}});
        }
        const std::string text = Json(Json::Object{{"model", model_}, {"messages", std::move(list)}}).dump(2) + "\n";
        const Status saved = write_file_atomically(path, std::as_bytes(std::span(text)));
        console_.note(saved.ok() ? "saved to " + path : saved.error().message);
    }

    Conversation& conversation_;
    std::string model_;
    Console& console_;
    ClosingLine closing_line_;
    LineReader reader_;
};

}  // namespace

Status chat(Conversation& conversation, const std::string& model, Session& session) {
    const Result<ChatTemplate>& chat_template = conversation.engine().chat_template();
    if (!chat_template.ok()) {
        return Error{ErrorCode::InvalidModel, model + ": cannot chat: " + chat_template.error().message +
                                                  " (give a prompt and --raw to continue a text)"};
    }
    return Chat(conversation, model, session).run();
}

}  // namespace hearth
