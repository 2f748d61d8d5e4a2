// /v1/trees: timelines that grow, branch and go back, kept between requests.
#include "server/api/api_state.h"

namespace hearth {

namespace {

ApiError tree_not_found(std::string_view id) {
    return {404, "tree '" + std::string(id.substr(0, 64)) + "' does not exist", "tree", "tree_not_found"};
}

ApiError tree_full(const std::string& refusal) {
    return {400, "tree: " + refusal, "tree", "tree_full"};
}

// Everything that happens to sequences happens on the scheduler's thread, while the worker has long gone: what is
// needed there is kept together here.
struct TreeTask {
    Api::Impl& api;
    std::shared_ptr<HttpExchange> exchange;
    std::string tree;
    std::string scope;

    void refuse(ApiError error) const { respond_error(*exchange, error); }
    void refuse(const Error& error) const { respond_error(*exchange, api_error(error)); }
    void gone() const { refuse(tree_not_found(tree)); }
    // The new nodes, or an answer that the tree has gone in the meantime or is full.
    void add(std::vector<TreeNode> nodes) const {
        Json::Array made;
        std::string refusal;
        std::size_t tokens = 0;
        for (const TreeNode& node : nodes) tokens += node.tokens.size();
        const bool there = api.trees.with(tree, scope, [&](Tree& target) {
            refusal = target.refusal(nodes.size(), tokens);
            if (!refusal.empty()) return;
            for (TreeNode& node : nodes) {
                node.id = target.next_id++;
                made.push_back(target.describe(node));
                target.nodes.push_back(std::move(node));
            }
        });
        if (!there) return gone();
        if (!refusal.empty()) return refuse(tree_full(refusal));
        respond_json(*exchange, 200, Json::Object{{"object", "list"}, {"tree", tree}, {"data", Json(std::move(made))}});
    }
};

// A node as the request names it, copied out without its sequence, which only the scheduler's thread may touch.
struct NodeView {
    ServedModel* model = nullptr;
    TreeNode node;
    bool has_children = false;
};

enum class Change : std::uint8_t { Grow, Shrink };  // a full tree may still shrink

std::optional<NodeView> find_node(ApiCall& call, Fields& fields, std::string_view key, Change change) {
    const std::optional<std::int64_t> wanted = fields.integer(key, 0, std::int64_t{1} << 40);
    std::optional<NodeView> view;
    std::string refusal;
    const bool there = call.api.trees.with(call.ids[0], call.request.key_scope, [&](Tree& tree) {
        refusal = tree.refusal(1, 0);
        const std::size_t id = wanted ? static_cast<std::size_t>(*wanted) : 0;
        if (const TreeNode* node = tree.find(id)) {
            view = NodeView{tree.model, *node, tree.has_children(id)};
            view->node.sequence = nullptr;
        }
    });
    if (!there) {
        call.faults.add(tree_not_found(call.ids[0]));
    } else if (!view) {
        fields.fault(key, "the tree has no such node");
    } else if (change == Change::Grow && !refusal.empty()) {
        call.faults.add(tree_full(refusal));
    }
    if (call.api.draining) call.faults.add(draining_error());
    return view;
}

// text, tokens or messages; nothing: none of them.
std::optional<std::vector<TokenId>> read_content(Fields& fields, ServedModel& model, bool at_beginning) {
    const std::optional<std::string> text = fields.string("text");
    const Json::Array* tokens = fields.array("tokens", std::size_t{1} << 20);
    const Json::Array* messages = at_beginning ? fields.array("messages", kMessageLimit) : nullptr;
    const bool parse_special = fields.boolean("parse_special").value_or(false);
    if ((text ? 1 : 0) + (tokens != nullptr ? 1 : 0) + (messages != nullptr ? 1 : 0) > 1) {
        fields.fault("text", "give one of text, tokens and messages");
    }
    if (!fields.ok()) return {};
    if (text) {
        const ParseSpecial special = parse_special ? ParseSpecial::Yes : ParseSpecial::No;
        return at_beginning ? encode_text(model.tokenizer(), *text, special)
                            : model.tokenizer().encode(*text, AddSpecial::No, special);
    }
    if (tokens != nullptr) return read_tokens(*tokens, "tokens", model.tokenizer(), fields.faults());
    if (messages != nullptr) {
        const Json::Array list = read_chat_messages(*messages, "messages", fields.faults());
        if (!fields.ok()) return {};
        return encode_chat(model, list, {}, "messages", fields.faults());
    }
    return {};
}

// Gathers what is sampled from a node and makes nodes of it.
class TreeSink final : public AnswerSink {
public:
    TreeSink(TreeTask task, ServedModel* model, const TreeNode& parent, std::size_t choices, bool logprobs)
        : task_(std::move(task)), model_(model), nodes_(choices), logprobs_(logprobs) {
        report_.model = model->name;
        for (TreeNode& node : nodes_) {
            node.parent = parent.id;
            node.kind = "sample";
            node.base = parent.end();
        }
    }

    void token(const TokenEvent& event) override {
        TreeNode& node = nodes_[event.choice];
        node.tokens.push_back(event.token);
        if (logprobs_) node.logprobs.push_back(event.logprob);
    }
    void choice_finished(std::size_t choice, FinishReason reason, std::string_view) override {
        nodes_[choice].finish_reason = openai_finish(reason, false);
        if (reason == FinishReason::Cancelled) report_.cancelled = true;
        ++(reason == FinishReason::Length || reason == FinishReason::Deadline ? report_.cut : report_.stopped);
    }
    void kept(std::size_t choice, Sequence sequence) override {
        nodes_[choice].sequence = std::make_shared<Sequence>(std::move(sequence));
    }
    void finished(const Usage& usage, const std::optional<Error>& error) override {
        report_.usage = usage;
        report_.failed = error.has_value();
        count_answer(task_.api, report_);
        // Their sequences end here, on the thread that owns them.
        std::vector<TreeNode> nodes = std::move(nodes_);
        if (error) return task_.refuse(*error);
        // Half an answer that nobody waited for is no node.
        if (report_.cancelled) return task_.refuse(Error{ErrorCode::Cancelled, "the sampling was cancelled"});
        for (TreeNode& node : nodes) {
            if (node.sequence == nullptr) {
                return task_.refuse({503, "the memory for KV is used up: delete trees", {}, "out_of_resources"});
            }
            // A token that only ended the answer is not part of the timeline.
            node.tokens.clear();
            for (std::size_t i = node.base; i < node.sequence->length(); ++i) {
                node.tokens.push_back(node.sequence->token(i));
            }
            if (node.logprobs.size() > node.tokens.size()) node.logprobs.resize(node.tokens.size());
            node.text = text_between(model_->tokenizer(), node.sequence->tokens(), node.base);
        }
        task_.add(std::move(nodes));
    }

private:
    TreeTask task_;
    ServedModel* model_;
    std::vector<TreeNode> nodes_;
    bool logprobs_;
    AnswerReport report_;
};

// On the scheduler's thread: a branch of the node that ends behind `length` tokens. Nothing: the node has gone, and the
// request was answered so.
std::shared_ptr<Sequence> branch(const TreeTask& task, const NodeView& view, std::size_t length) {
    std::shared_ptr<Sequence> made;
    std::optional<Error> error;
    const bool there = task.api.trees.with(task.tree, task.scope, [&](Tree& tree) {
        const TreeNode* node = tree.find(view.node.id);
        if (node == nullptr || node->end() < length) {
            error = Error{ErrorCode::Usage, "the node has changed meanwhile"};
            return;
        }
        Result<Sequence> forked = node->sequence->fork(Time{static_cast<std::uint32_t>(length)});
        if (forked.ok()) {
            made = std::make_shared<Sequence>(std::move(forked).value());
        } else {
            error = forked.error();
        }
    });
    if (!there) task.gone();
    if (error) task.refuse(*error);
    return made;
}

void sample_nodes(ApiCall& call, NodeView view, AnswerSpec spec, std::vector<TokenId> added) {
    ServedModel* model = view.model;
    TreeTask task{call.api, call.exchange, call.ids[0], call.request.key_scope};
    auto request = std::make_shared<AnswerRequest>(make_request(spec, std::move(added), call.request.key_scope));
    request->keep = true;
    request->sink = std::make_shared<TreeSink>(task, model, view.node, spec.choices, spec.logprobs);
    struct Gone {
        std::mutex mutex;
        bool gone = false;
        std::optional<AnswerId> id;
    };
    auto gone = std::make_shared<Gone>();
    call.exchange->watch({.gone =
                              [gone, model] {
                                  std::optional<AnswerId> id;
                                  {
                                      const std::scoped_lock lock(gone->mutex);
                                      gone->gone = true;
                                      id = gone->id;
                                  }
                                  if (id) model->scheduler.cancel(*id);
                              },
                          .slow = [] {},
                          .caught_up = [] {}});
    model->scheduler.run_between_steps([task, model, view = std::move(view), request, gone]() mutable {
        const std::shared_ptr<Sequence> made = branch(task, view, view.node.end());
        if (made == nullptr) return;
        request->from = std::move(*made);
        const Result<AnswerId> id = model->scheduler.submit(std::move(*request));
        if (!id.ok()) {
            const ApiError error = api_error(id.error());
            count_refusal(task.api, model->name, error.status);
            return task.refuse(error);
        }
        bool cancel = false;
        {
            const std::scoped_lock lock(gone->mutex);
            gone->id = id.value();
            cancel = gone->gone;
        }
        if (cancel) model->scheduler.cancel(id.value());
    });
}

}  // namespace

void post_trees(ApiCall& call) {
    Fields fields(call.body, "", call.faults);
    ServedModel* model = call.model(fields);
    if (call.refused()) return;
    std::optional<std::vector<TokenId>> tokens = read_content(fields, *model, true);
    fields.finish();
    if (!tokens) tokens = encode_text(model->tokenizer(), "", ParseSpecial::No);
    if (fields.ok()) check_length(*model, tokens->size(), "text", call.faults);
    if (call.refused()) return;
    auto tree = std::make_shared<Tree>();
    tree->id = random_id("tree_", 24);
    tree->scope = call.request.key_scope;
    tree->model = model;
    tree->created = epoch_seconds();
    tree->next_id = 1;
    TreeNode root;
    root.kind = "prompt";
    root.tokens = std::move(*tokens);
    root.text = model->tokenizer().decode(root.tokens);
    tree->nodes.push_back(std::move(root));
    TreeTask task{call.api, call.exchange, tree->id, tree->scope};
    model->scheduler.run_between_steps([task, model, tree] {
        auto sequence = std::make_shared<Sequence>(model->engine, std::make_shared<const SamplingOptions>());
        if (const Status added = sequence->append(tree->nodes[0].tokens); !added.ok())
            return task.refuse(added.error());
        tree->nodes[0].sequence = std::move(sequence);
        const Json description = tree->describe();
        task.api.trees.add(std::move(*tree));
        respond_json(*task.exchange, 200, description);
    });
}

void get_trees(ApiCall& call) {
    std::vector<Json> all = call.api.trees.list(call.request.key_scope);
    respond_json(*call.exchange, 200, Json::Object{{"object", "list"}, {"data", Json(Json::Array(all))}});
}

void get_tree(ApiCall& call) {
    Json description;
    const bool there =
        call.api.trees.with(call.ids[0], call.request.key_scope, [&](Tree& tree) { description = tree.describe(); });
    if (!there) return call.refuse(tree_not_found(call.ids[0]));
    respond_json(*call.exchange, 200, description);
}

void delete_tree(ApiCall& call) {
    if (!call.api.trees.remove(call.ids[0], call.request.key_scope)) return call.refuse(tree_not_found(call.ids[0]));
    respond_json(*call.exchange, 200, Json::Object{{"id", call.ids[0]}, {"object", "tree"}, {"deleted", true}});
}

void post_tree_nodes(ApiCall& call) {
    Fields fields(call.body, "", call.faults);
    std::optional<NodeView> view = find_node(call, fields, "parent", Change::Grow);
    if (call.refused()) return;
    std::optional<std::vector<TokenId>> tokens = read_content(fields, *view->model, false);
    const Json* sample = fields.take("sample");
    fields.finish();
    if (!tokens && sample == nullptr) fields.fault("text", "give text or tokens to append, or sample, or both");
    AnswerSpec spec;
    if (sample != nullptr) {
        Fields parts(*sample, "sample", call.faults);
        read_sampling(parts, view->model->tokenizer(), spec);
        read_stops(parts, "stop", spec);
        spec.choices = static_cast<std::size_t>(parts.integer("n", 1, kChoiceLimit).value_or(1));
        spec.max_tokens = static_cast<std::size_t>(parts.integer("max_tokens", 1, kMaxTokensLimit).value_or(16));
        spec.logprobs = parts.boolean("logprobs").value_or(false);
        read_response_format(parts, spec);
        parts.finish();
    }
    if (call.refused()) return;
    const std::size_t added = tokens ? tokens->size() : 0;
    check_length(*view->model, view->node.end() + added, "text", call.faults);
    if (sample != nullptr && added > 0) fields.fault("sample", "append first, then sample from the new node");
    if (sample != nullptr && view->node.end() + added == 0) fields.fault("sample", "the tree is empty");
    if (call.refused()) return;
    if (sample != nullptr) return sample_nodes(call, std::move(*view), std::move(spec), {});
    ServedModel* model = view->model;
    TreeTask task{call.api, call.exchange, call.ids[0], call.request.key_scope};
    model->scheduler.run_between_steps([task, model, view = std::move(*view), appended = std::move(*tokens)]() mutable {
        TreeNode node;
        node.sequence = branch(task, view, view.node.end());
        if (node.sequence == nullptr) return;
        if (const Status added_all = node.sequence->append(appended); !added_all.ok()) {
            return task.refuse(added_all.error());
        }
        node.parent = view.node.id;
        node.kind = "append";
        node.base = view.node.end();
        node.tokens = std::move(appended);
        node.text = text_between(model->tokenizer(), node.sequence->tokens(), node.base);
        std::vector<TreeNode> nodes;
        nodes.push_back(std::move(node));
        task.add(std::move(nodes));
    });
}

void post_tree_fork(ApiCall& call) {
    Fields fields(call.body, "", call.faults);
    std::optional<NodeView> view = find_node(call, fields, "node", Change::Grow);
    if (call.refused()) return;
    const std::size_t own = view->node.tokens.size();
    const std::size_t keep = static_cast<std::size_t>(
        fields.integer("position", 0, static_cast<std::int64_t>(own)).value_or(static_cast<std::int64_t>(own)));
    fields.finish();
    if (call.refused()) return;
    ServedModel* model = view->model;
    TreeTask task{call.api, call.exchange, call.ids[0], call.request.key_scope};
    model->scheduler.run_between_steps([task, model, view = std::move(*view), keep]() mutable {
        TreeNode node;
        node.sequence = branch(task, view, view.node.base + keep);
        if (node.sequence == nullptr) return;
        node.parent = view.node.parent;
        node.kind = "fork";
        node.base = view.node.base;
        node.tokens.assign(view.node.tokens.begin(), view.node.tokens.begin() + static_cast<std::ptrdiff_t>(keep));
        node.logprobs = view.node.logprobs;
        if (node.logprobs.size() > keep) node.logprobs.resize(keep);
        node.text = text_between(model->tokenizer(), node.sequence->tokens(), node.base);
        std::vector<TreeNode> nodes;
        nodes.push_back(std::move(node));
        task.add(std::move(nodes));
    });
}

void post_tree_regress(ApiCall& call) {
    Fields fields(call.body, "", call.faults);
    std::optional<NodeView> view = find_node(call, fields, "node", Change::Shrink);
    if (call.refused()) return;
    if (view->has_children) fields.fault("node", "has children: fork it instead");
    const auto position = fields.integer("position", 0, static_cast<std::int64_t>(view->node.tokens.size()));
    if (!position) fields.fault("position", "is missing");
    fields.finish();
    if (call.refused()) return;
    const std::size_t keep = static_cast<std::size_t>(*position);
    ServedModel* model = view->model;
    TreeTask task{call.api, call.exchange, call.ids[0], call.request.key_scope};
    const std::size_t id = view->node.id;
    model->scheduler.run_between_steps([task, model, id, keep] {
        std::optional<Error> error;
        Json description;
        const bool there = task.api.trees.with(task.tree, task.scope, [&](Tree& tree) {
            TreeNode* node = tree.find(id);
            if (node == nullptr || tree.has_children(id) || keep > node->tokens.size()) {
                error = Error{ErrorCode::Usage, "node: the tree has changed meanwhile"};
                return;
            }
            const Status gone_back = node->sequence->regress(Time{static_cast<std::uint32_t>(node->base + keep)});
            if (!gone_back.ok()) {
                error = gone_back.error();
                return;
            }
            node->tokens.resize(keep);
            if (node->logprobs.size() > keep) node->logprobs.resize(keep);
            node->finish_reason.clear();
            node->text = text_between(model->tokenizer(), node->sequence->tokens(), node->base);
            description = tree.describe(*node);
        });
        if (!there) return task.gone();
        if (error) return task.refuse(*error);
        respond_json(*task.exchange, 200,
                     Json::Object{{"object", "list"}, {"tree", task.tree}, {"data", Json::Array{description}}});
    });
}

}  // namespace hearth
