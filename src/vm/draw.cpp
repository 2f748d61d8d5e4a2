#include "vm/draw.h"

#include <algorithm>
#include <array>

namespace hearth::vm {

namespace {

constexpr int kLeft = 60;
constexpr int kLayerWidth = 84;
constexpr int kTop = 60;
constexpr int kBox = 14;
constexpr int kSlotHeight = 6;

std::string escaped(std::string_view text) {
    std::string result;
    for (const char c : text) {
        if (c == '<') {
            result += "&lt;";
        } else if (c == '>') {
            result += "&gt;";
        } else if (c == '&') {
            result += "&amp;";
        } else {
            result += c;
        }
    }
    return result;
}

std::string rectangle(int x, int y, int width, int height, std::string_view colour, std::string_view title) {
    return "<rect x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\" width=\"" + std::to_string(width) +
           "\" height=\"" + std::to_string(height) + "\" fill=\"" + std::string(colour) + "\"><title>" +
           escaped(title) + "</title></rect>\n";
}

std::string label(int x, int y, std::string_view text) {
    return "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\">" + escaped(text) + "</text>\n";
}

std::string_view colour_of(HeadKind kind) {
    switch (kind) {
        case HeadKind::Unused: return "#dddddd";
        case HeadKind::Search: return "#c0392b";
        case HeadKind::PassThrough: return "#95a5a6";
        case HeadKind::Gather: return "#2e86c1";
        case HeadKind::LatestOfClass: return "#27ae60";
        case HeadKind::RunningSum: return "#d4ac0d";
        case HeadKind::LatestByKey: return "#8e44ad";
    }
    return "#000000";
}

}  // namespace

std::string draw_svg(const Model& model) {
    const int layers = static_cast<int>(model.layers.size());
    const int heads_height = static_cast<int>(model.head_count) * kBox + 20;
    const int neurons_top = kTop + heads_height;
    const int slots_top = neurons_top + 150;
    const int width = kLeft + layers * kLayerWidth + 40;
    const int height = slots_top + static_cast<int>(model.width) * kSlotHeight + 30;
    std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + std::to_string(width) + "\" height=\"" +
                      std::to_string(height) + "\" font-family=\"sans-serif\" font-size=\"11\">\n";
    svg += rectangle(0, 0, width, height, "#ffffff", "");
    svg += label(kLeft, 20,
                 "Transformer VM: " + std::to_string(layers) + " layers, " + std::to_string(model.width) +
                     " slots; point at a box for its name");
    int x = kLeft;
    static constexpr std::array kKinds = {HeadKind::Gather, HeadKind::LatestOfClass, HeadKind::RunningSum,
                                          HeadKind::LatestByKey, HeadKind::Search};
    for (const HeadKind kind : kKinds) {
        svg += rectangle(x, 28, 10, 10, colour_of(kind), "") + label(x + 14, 37, head_kind_name(kind));
        x += 120;
    }
    svg += label(4, kTop + 10, "heads") + label(4, neurons_top + 10, "neurons") + label(4, slots_top + 10, "slots");
    std::size_t most = 1;
    for (const Layer& layer : model.layers) most = std::max(most, layer.neurons.size());
    for (int l = 0; l < layers; ++l) {
        const Layer& layer = model.layers[static_cast<std::size_t>(l)];
        const int left = kLeft + l * kLayerWidth;
        svg += label(left, kTop - 6, std::to_string(l));
        for (std::size_t i = 0; i < layer.heads.size(); ++i) {
            const Head& head = layer.heads[i];
            svg += rectangle(left, kTop + static_cast<int>(i) * kBox, kLayerWidth - 14, kBox - 3, colour_of(head.kind),
                             head.name + ": " + std::string(head_kind_name(head.kind)) + ". " + head.proof);
        }
        const int bar = static_cast<int>(layer.neurons.size() * 120 / most);
        svg += rectangle(left, neurons_top, kLayerWidth - 14, std::max(bar, 1), "#e67e22",
                         std::to_string(layer.neurons.size()) + " neurons");
        svg += label(left, neurons_top + std::max(bar, 1) + 12, std::to_string(layer.neurons.size()));
    }
    for (const SlotUse& use : model.uses) {
        const int from = kLeft + (use.first_half + 1) * kLayerWidth / 2;
        const int to = kLeft + (use.last_half + 1) * kLayerWidth / 2;
        const std::string_view colour = use.first_half < 0        ? "#7f8c8d"
                                        : use.first_half % 2 == 0 ? "#5dade2"
                                                                  : "#f0b27a";
        svg += rectangle(from, slots_top + static_cast<int>(use.slot) * kSlotHeight, std::max(to - from, 4) - 2,
                         kSlotHeight - 1, colour, use.name);
    }
    return svg + "</svg>\n";
}

}  // namespace hearth::vm
