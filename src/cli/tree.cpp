// hearth tree: grows, branches and shows the trees of a running server. The server keeps them; this only asks.
#include <algorithm>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/http_client.h"
#include "cli/input.h"

namespace hearth {

namespace {

constexpr Positional kPositionals[] = {
    {.name = "VERB",
     .kind = ValueKind::Choice,
     .help = "new makes a tree, append and sample add nodes, fork makes a sibling, regress goes back, show draws, "
             "delete removes.",
     .choices = "new|append|sample|fork|regress|show|delete"},
    {.name = "TREE", .required = false, .help = "Which tree; new has none, and show without one lists all."},
    {.name = "TEXT", .required = false, .help = "What new or append put in; - reads standard input."}};

constexpr Option kOptions[] = {
    {.name = "url",
     .kind = ValueKind::Text,
     .value_name = "URL",
     .help = "The server.",
     .default_text = "http://127.0.0.1:8080"},
    {.name = "key",
     .kind = ValueKind::Text,
     .value_name = "KEY",
     .help = "API key of the server.",
     .default_text = "HEARTH_API_KEY, else none"},
    {.name = "model",
     .kind = ValueKind::Text,
     .value_name = "NAME",
     .help = "new: the model.",
     .default_text = "the server's first"},
    {.name = "chat", .help = "new: the text is a user's message, put into the model's chat template."},
    {.name = "node",
     .kind = ValueKind::Whole,
     .value_name = "N",
     .help = "The node to append to, sample from, fork or take back.",
     .default_text = "the newest"},
    {.name = "at",
     .kind = ValueKind::Whole,
     .value_name = "N",
     .help = "fork, regress: how many of the node's tokens stay.",
     .default_text = "fork: all"},
    {.name = "max-tokens",
     .letter = 'n',
     .kind = ValueKind::Whole,
     .value_name = "N",
     .help = "sample: tokens at most.",
     .default_text = "16"},
    {.name = "choices",
     .kind = ValueKind::Whole,
     .value_name = "N",
     .help = "sample: that many siblings at once.",
     .default_text = "1"},
    {.name = "temperature",
     .kind = ValueKind::Real,
     .value_name = "X",
     .help = "sample: 0 takes the likeliest.",
     .default_text = "0.8"},
    {.name = "top-k",
     .kind = ValueKind::Whole,
     .value_name = "N",
     .help = "sample: only the N likeliest; 0 is off.",
     .default_text = "40"},
    {.name = "top-p",
     .kind = ValueKind::Real,
     .value_name = "X",
     .help = "sample: only the likeliest that make up X.",
     .default_text = "0.95"},
    {.name = "seed",
     .kind = ValueKind::Whole,
     .value_name = "N",
     .help = "sample: the same seed says the same.",
     .default_text = "drawn"},
};

constexpr Example kExamples[] = {
    {"TREE=$(hearth tree new 'Once upon a time')", "A tree whose root is this text; its name is printed."},
    {"hearth tree sample $TREE --node 0 --choices 3 -n 20", "Three ways to go on."},
    {"hearth tree fork $TREE --node 2 --at 5", "A sibling of node 2 that has its first five tokens."},
    {"hearth tree show $TREE", "Draws it."}};

constexpr std::uint64_t kMostNumber = std::uint64_t{1} << 40;

// What every verb needs: where to ask, and how to say what went wrong.
class TreeClient {
public:
    TreeClient(ServerAddress address, std::string key) : address_(std::move(address)), key_(std::move(key)) {}

    Result<Json> ask(std::string_view method, const std::string& path, const Json& body = {}) const {
        ServerRequest request;
        request.method = method;
        request.path = "/v1/trees" + path;
        if (!body.is_null()) request.body = body.dump();
        request.key = key_;
        request.patience = std::chrono::seconds(0);  // sampling takes as long as it takes
        Result<ServerReply> reply = ask_server(address_, request);
        if (!reply.ok()) return Error{reply.error().code, "tree: " + reply.error().message};
        if (reply->status == 200) return std::move(reply->body);
        const ErrorCode code = reply->status == 429   ? ErrorCode::Busy
                               : reply->status >= 500 ? ErrorCode::Failed
                                                      : ErrorCode::Usage;
        return Error{code, "tree: " + error_text(reply.value())};
    }

private:
    ServerAddress address_;
    std::string key_;
};

std::int64_t whole_of(const Json& object, std::string_view key, std::int64_t otherwise) {
    const Json* value = object.find(key);
    return value != nullptr && value->as_int() != nullptr ? *value->as_int() : otherwise;
}

std::string text_of(const Json& object, std::string_view key) {
    const Json* value = object.find(key);
    return value != nullptr && value->as_string() != nullptr ? *value->as_string() : std::string();
}

const Json::Array& items_of(const Json& object, std::string_view key) {
    static const Json::Array kNone;
    const Json* value = object.find(key);
    return value != nullptr && value->as_array() != nullptr ? *value->as_array() : kNone;
}

// At most `columns` characters (0: all), not cut within one.
std::string shortened(const std::string& text, std::size_t columns) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool begins = (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80;
        if (begins && columns > 0 && ++count > columns) return text.substr(0, i) + "…\"";
    }
    return text;
}

// "2 sample " there was" · 3 tokens · length". The text is quoted: it may hold anything.
std::string node_line(const Json& node, std::size_t columns) {
    const std::size_t tokens = items_of(node, "tokens").size();
    const std::string reason = text_of(node, "finish_reason");
    const std::string front = std::to_string(whole_of(node, "id", 0)) + " " + text_of(node, "kind") + " ";
    const std::string back =
        " · " + std::to_string(tokens) + (tokens == 1 ? " token" : " tokens") + (reason.empty() ? "" : " · " + reason);
    constexpr std::size_t kLeast = 12;
    const std::size_t used = front.size() + back.size() + 2;
    const std::size_t room = columns == 0 ? 0 : std::max(columns > used ? columns - used : 0, kLeast);
    return front + shortened(json_quote(text_of(node, "text")), room) + back;
}

struct Branch {
    std::size_t node;    // index into the nodes
    std::string before;  // what stands left of its line
    bool last;
    std::size_t depth;  // 0: a root
};

std::string draw_tree(const Json& tree, std::size_t columns, const Console& console) {
    const Json::Array& nodes = items_of(tree, "nodes");
    const auto children_of = [&](std::int64_t parent) {
        std::vector<std::size_t> found;
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            if (whole_of(nodes[i], "parent", -1) == parent) found.push_back(i);
        }
        return found;
    };
    std::string out = console.for_output(Style::Bold, text_of(tree, "id")) + " · " + text_of(tree, "model") + " · " +
                      std::to_string(nodes.size()) + (nodes.size() == 1 ? " node\n" : " nodes\n");
    std::vector<Branch> open;
    const std::vector<std::size_t> roots = children_of(-1);
    for (auto root = roots.rbegin(); root != roots.rend(); ++root) open.push_back({*root, "", true, 0});
    while (!open.empty()) {
        const Branch here = std::move(open.back());
        open.pop_back();
        const std::string fork = here.depth == 0 ? "" : here.last ? "└─ " : "├─ ";
        const std::size_t indent = 3 * here.depth;
        const std::size_t room = columns == 0 ? 0 : columns > indent ? columns - indent : 1;
        out += console.for_output(Style::Dim, here.before + fork) + node_line(nodes[here.node], room) + "\n";
        const std::string before = here.depth == 0 ? "" : here.before + (here.last ? "   " : "│  ");
        const std::vector<std::size_t> children = children_of(whole_of(nodes[here.node], "id", 0));
        for (std::size_t i = children.size(); i-- > 0;) {
            open.push_back({children[i], before, i + 1 == children.size(), here.depth + 1});
        }
    }
    return out;
}

Result<std::string> given_text(const Arguments& arguments, std::size_t index, std::string_view verb) {
    const std::optional<std::string> text = arguments.positional(index);
    if (!text) return Error{ErrorCode::Usage, "tree: " + std::string(verb) + " needs a TEXT"};
    return *text == "-" ? read_standard_input() : Result<std::string>(*text);
}

// "/ID" as it stands in a path. The server knows no other names than these.
Result<std::string> tree_path(const Arguments& arguments, std::string_view verb) {
    const std::optional<std::string> tree = arguments.positional(1);
    if (!tree) return Error{ErrorCode::Usage, "tree: " + std::string(verb) + " needs a TREE"};
    const bool plain = !tree->empty() && std::all_of(tree->begin(), tree->end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    });
    if (!plain) return Error{ErrorCode::Usage, "tree: '" + *tree + "' is not the name of a tree (tree_...)"};
    return "/" + *tree;
}

Result<std::int64_t> chosen_node(const Arguments& arguments, const TreeClient& client, const std::string& path) {
    const std::optional<std::uint64_t> node = TRY(arguments.whole("node", 0, kMostNumber));
    if (node) return static_cast<std::int64_t>(*node);
    const Json tree = TRY(client.ask("GET", path));
    std::int64_t newest = 0;
    for (const Json& one : items_of(tree, "nodes")) newest = std::max(newest, whole_of(one, "id", 0));
    return newest;
}

Result<Json> sample_fields(const Arguments& arguments) {
    Json::Object sample;
    const auto whole = [&](std::string_view option, std::string_view field) -> Status {
        const auto value = TRY(arguments.whole(option, 0, kMostNumber));
        if (value) sample.emplace_back(field, Json(*value));
        return {};
    };
    const auto real = [&](std::string_view option, std::string_view field) -> Status {
        const auto value = TRY(arguments.real(option));
        if (value) sample.emplace_back(field, Json(static_cast<double>(*value)));
        return {};
    };
    TRY(whole("max-tokens", "max_tokens"));
    TRY(whole("choices", "n"));
    TRY(whole("top-k", "top_k"));
    TRY(whole("seed", "seed"));
    TRY(real("temperature", "temperature"));
    TRY(real("top-p", "top_p"));
    return Json(std::move(sample));
}

Result<Json> make_tree(const Arguments& arguments, const TreeClient& client) {
    if (arguments.positional_count() > 2) return Error{ErrorCode::Usage, "tree: new takes one TEXT"};
    Json::Object body;
    if (const auto model = arguments.text("model")) body.emplace_back("model", *model);
    if (arguments.positional_count() == 2) {
        std::string text = TRY(given_text(arguments, 1, "new"));
        if (arguments.flag("chat")) {
            body.emplace_back("messages", Json::Array{Json::Object{{"role", "user"}, {"content", std::move(text)}}});
        } else {
            body.emplace_back("text", std::move(text));
        }
    }
    return client.ask("POST", "", Json(std::move(body)));
}

// append, sample, fork and regress: each gives a list of nodes.
Result<Json> change_tree(const std::string& verb, const Arguments& arguments, const TreeClient& client) {
    const std::string path = TRY(tree_path(arguments, verb));
    if (verb != "append" && arguments.positional_count() > 2) {
        return Error{ErrorCode::Usage, "tree: " + verb + " takes no TEXT"};
    }
    Json::Object body;
    const bool adds = verb == "append" || verb == "sample";
    if (verb == "append") body.emplace_back("text", TRY(given_text(arguments, 2, verb)));
    if (verb == "sample") body.emplace_back("sample", TRY(sample_fields(arguments)));
    if (!adds) {
        const auto position = TRY(arguments.whole("at", 0, kMostNumber));
        if (!position && verb == "regress") return Error{ErrorCode::Usage, "tree: regress needs --at"};
        if (position) body.emplace_back("position", Json(*position));
    }
    body.emplace_back(adds ? "parent" : "node", Json(TRY(chosen_node(arguments, client, path))));
    return client.ask("POST", path + (adds ? "/nodes" : "/" + verb), Json(std::move(body)));
}

std::string draw_list(const Json& list) {
    std::string out;
    for (const Json& tree : items_of(list, "data")) {
        out += text_of(tree, "id") + "  " + text_of(tree, "model") + "  " +
               std::to_string(whole_of(tree, "node_count", 0)) + " nodes\n";
    }
    return out.empty() ? "no trees\n" : out;
}

Status run_tree(const Arguments& arguments, Session& session) {
    Console& console = session.console;
    Result<ServerAddress> address = ServerAddress::parse(arguments.text("url").value_or("http://127.0.0.1:8080"));
    if (!address.ok()) return Error{ErrorCode::Usage, "tree: --url: " + address.error().message};
    const TreeClient client(address.value(), arguments.text("key").value_or(session.environment.api_key));
    const std::string verb = *arguments.positional(0);
    const std::size_t columns = console.output_is_terminal() ? console.error_columns() : 0;
    Json reply;
    std::string shown;
    if (verb == "new") {
        reply = TRY(make_tree(arguments, client));
        shown = text_of(reply, "id") + "\n";
    } else if (verb == "show" && arguments.positional_count() == 1) {
        reply = TRY(client.ask("GET", ""));
        shown = draw_list(reply);
    } else if (verb == "show") {
        reply = TRY(client.ask("GET", TRY(tree_path(arguments, verb))));
        shown = draw_tree(reply, columns, console);
    } else if (verb == "delete") {
        reply = TRY(client.ask("DELETE", TRY(tree_path(arguments, verb))));
    } else {
        reply = TRY(change_tree(verb, arguments, client));
        for (const Json& node : items_of(reply, "data")) shown += node_line(node, columns) + "\n";
    }
    console.print(arguments.flag("json") ? reply.dump() + "\n" : shown);
    return {};
}

}  // namespace

const Command kTreeCommand = {
    "tree",
    "Grow and branch timelines on a server",
    "A tree holds timelines that share their beginnings on a running `hearth serve`: node 0 is the prompt, others are "
    "appended to or sampled from a node. A fork or a step back costs nothing, and what is sampled from there is what "
    "would have been said without it. The same as /v1/trees (docs/api.md).",
    kPositionals,
    kOptions,
    kExamples,
    run_tree};

}  // namespace hearth
