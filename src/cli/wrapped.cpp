#include "cli/wrapped.h"

#include <algorithm>

namespace hearth {

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
    std::string out;
    std::size_t column = indent;
    bool line_begins = true;
    while (!text.empty()) {
        const std::size_t space = std::min(text.find_first_of(" \n"), text.size());
        const std::string_view word = text.substr(0, space);
        if (!line_begins && column + 1 + word.size() > width) {
            out += "\n" + std::string(indent, ' ');
            column = indent;
            line_begins = true;
        }
        if (!line_begins) {
            out += " ";
            ++column;
        }
        out += word;
        column += word.size();
        line_begins = false;
        if (space < text.size() && text[space] == '\n') {
            out += "\n" + std::string(indent, ' ');
            column = indent;
            line_begins = true;
        }
        text.remove_prefix(std::min(space + 1, text.size()));
    }
    return out;
}

}  // namespace hearth
