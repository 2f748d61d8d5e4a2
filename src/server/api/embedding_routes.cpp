// /v1/embeddings: unit vectors of texts or tokens.
#include <bit>
#include <cmath>
#include <cstring>

#include "server/api/api_state.h"

namespace hearth {

namespace {

constexpr std::size_t kInputLimit = 256;
constexpr std::size_t kTokenLimit = std::size_t{1} << 20;

std::string base64(std::string_view bytes) {
    constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        std::uint32_t group = 0;
        for (std::size_t j = 0; j < 3; ++j) {
            group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
        }
        for (std::size_t j = 0; j < 4; ++j) {
            out += i + j > bytes.size() ? '=' : kLetters[group >> (18 - 6 * j) & 63];
        }
    }
    return out;
}

// One request's vectors as they come in.
struct EmbeddingJob {
    std::shared_ptr<HttpExchange> exchange;
    ServedModel* model = nullptr;
    bool as_base64 = false;
    std::size_t token_count = 0;

    std::mutex mutex;
    std::vector<std::vector<float>> vectors;
    std::size_t open = 0;
    bool over = false;
    bool gone = false;
    std::vector<AnswerId> ids;

    // The first failure is the answer; the other inputs need not be computed any more.
    void fail(const Error& error) {
        std::vector<AnswerId> accepted;
        {
            const std::scoped_lock lock(mutex);
            if (over) return;
            over = true;
            accepted = ids;
            respond_error(*exchange, api_error(error, "input"));
        }
        for (const AnswerId id : accepted) model->scheduler.cancel(id);
    }

    void done(std::size_t index, Result<std::vector<float>> vector) {
        if (!vector.ok()) return fail(vector.error());
        const std::scoped_lock lock(mutex);
        vectors[index] = std::move(vector).value();
        if (--open > 0 || over) return;
        over = true;
        Json::Array data;
        for (std::size_t i = 0; i < vectors.size(); ++i) {
            data.push_back(Json::Object{
                {"object", "embedding"}, {"index", std::uint64_t{i}}, {"embedding", vector_json(vectors[i])}});
        }
        const std::uint64_t tokens = token_count;
        respond_json(*exchange, 200,
                     Json::Object{{"object", "list"},
                                  {"data", Json(std::move(data))},
                                  {"model", model->name},
                                  {"usage", Json::Object{{"prompt_tokens", tokens}, {"total_tokens", tokens}}}});
    }

    Json vector_json(std::vector<float>& vector) const {
        double squares = 0;
        for (const float x : vector) squares += static_cast<double>(x) * static_cast<double>(x);
        const double scale = squares > 0 ? 1.0 / std::sqrt(squares) : 0.0;
        for (float& x : vector) x = static_cast<float>(static_cast<double>(x) * scale);
        if (!as_base64) return Json(Json::Array(vector.begin(), vector.end()));
        static_assert(std::endian::native == std::endian::little);
        std::string bytes(vector.size() * sizeof(float), '\0');
        std::memcpy(bytes.data(), vector.data(), bytes.size());
        return Json(base64(bytes));
    }
};

std::vector<std::vector<TokenId>> read_inputs(Fields& fields, const ServedModel& model) {
    std::vector<std::vector<TokenId>> inputs;
    const Json* value = fields.take("input");
    if (value == nullptr) {
        fields.fault("input", "is missing");
        return inputs;
    }
    const auto add = [&](const Json& one, const std::string& path) {
        if (const std::string* text = one.as_string()) {
            inputs.push_back(model.tokenizer().encode(*text, AddSpecial::Yes, ParseSpecial::No));
        } else if (const Json::Array* ids = one.as_array(); ids != nullptr && ids->size() <= kTokenLimit) {
            inputs.push_back(read_tokens(*ids, path, model.tokenizer(), fields.faults()));
        } else {
            fields.faults().field(path, "must be a string or an array of token ids");
        }
        if (fields.ok() && inputs.back().empty()) fields.faults().field(path, "is empty");
        if (fields.ok()) check_length(model, inputs.back().size(), path, fields.faults());
    };
    const Json::Array* list = value->as_array();
    if (list == nullptr || (!list->empty() && list->front().as_int() != nullptr)) {
        add(*value, "input");
        return inputs;
    }
    if (list->empty() || list->size() > kInputLimit) {
        fields.fault("input", "holds " + std::to_string(list->size()) + " inputs, 1 to " + std::to_string(kInputLimit) +
                                  " are allowed");
        return inputs;
    }
    for (std::size_t i = 0; i < list->size() && fields.ok(); ++i) {
        add((*list)[i], "input[" + std::to_string(i) + "]");
    }
    return inputs;
}

}  // namespace

void post_embeddings(ApiCall& call) {
    Fields fields(call.body, "", call.faults);
    ServedModel* model = call.model(fields);
    if (call.refused()) return;
    const auto format = fields.choice("encoding_format", {"float", "base64"});
    fields.unsupported(
        "dimensions",
        "is not supported: this model's vectors have " + std::to_string(model->engine->info().dim) + " dimensions",
        static_cast<std::int64_t>(model->engine->info().dim));
    fields.ignore({"user"});
    std::vector<std::vector<TokenId>> inputs =
        fields.ok() ? read_inputs(fields, *model) : std::vector<std::vector<TokenId>>();
    fields.ignore({"input"});
    fields.finish();
    if (call.refused()) return;
    auto job = std::make_shared<EmbeddingJob>();
    job->exchange = call.exchange;
    job->model = model;
    job->as_base64 = format == "base64";
    job->open = inputs.size();
    job->vectors.resize(inputs.size());
    for (const std::vector<TokenId>& input : inputs) job->token_count += input.size();
    const std::weak_ptr<EmbeddingJob> weak = job;
    call.exchange->watch({.gone =
                              [weak] {
                                  const auto watched = weak.lock();
                                  if (watched == nullptr) return;
                                  std::vector<AnswerId> ids;
                                  {
                                      const std::scoped_lock lock(watched->mutex);
                                      watched->gone = true;
                                      ids = watched->ids;
                                  }
                                  for (const AnswerId id : ids) watched->model->scheduler.cancel(id);
                              },
                          .slow = [] {},
                          .caught_up = [] {}});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Result<AnswerId> id = model->scheduler.submit_embedding(
            {std::move(inputs[i]), [job, i](Result<std::vector<float>> vector) { job->done(i, std::move(vector)); }});
        if (!id.ok()) {
            count_refusal(call.api, model->name, api_error(id.error()).status);
            return job->fail(id.error());
        }
        bool stop = false;
        {
            const std::scoped_lock lock(job->mutex);
            job->ids.push_back(id.value());
            stop = job->gone || job->over;
        }
        if (stop) return model->scheduler.cancel(id.value());
    }
}

}  // namespace hearth
