// A model file with edits: an error, or a model that reads back from what is written of it.
#include <cstdlib>

#include "fuzz/edits.h"
#include "vm/model_file.h"

namespace {

// Small, with one head of a kind that is proved from its weights and the neuron that proof needs.
std::vector<std::byte> small_model() {
    using namespace hearth::vm;
    Model model;
    model.width = 6;
    model.square_slot = 1;
    model.embedding.assign(token::kCount, {{2, 1}});
    model.logits.assign(token::kCount, {{3, 1}});
    const Neuron square{{{3, 1}}, {{3, 1}}, {{4, 1}}, "square"};
    Head head;
    head.name = "by key";
    head.query_x = {{3, 1}};
    head.query_y = {{2, 1}};
    head.key_x = {{3, 2}};
    head.key_y = {{4, -1}};
    head.value = {Row{{3, 1}}, Row{{2, 1}}};
    head.out = {Row{{5, 1}}, Row{{5, 1}}};
    head.key = {{3, 1}};
    head.member = {{2, 1}};
    model.layers.resize(2);
    model.layers[0].neurons = {square};
    model.layers[1].heads = {head};
    model.uses = {{"key", 0, 3, 3, {0, 100}}};
    return write_model(model);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const std::vector<std::byte> model = small_model();
    if (!hearth::vm::read_model(model).ok()) std::abort();
    const hearth::Result<hearth::vm::Model> read = hearth::vm::read_model(hearth::edited(model, data, size));
    if (read.ok() && !hearth::vm::read_model(hearth::vm::write_model(read.value())).ok()) std::abort();
    static_cast<void>(hearth::vm::read_model(std::as_bytes(std::span(data, size))));
    return 0;
}
