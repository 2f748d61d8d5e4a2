#include "cli/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/clock.h"
#include "base/utf8.h"

namespace hearth {

namespace {

// Writes all of `text`; gives 0 or the errno.
int write_all(int descriptor, std::string_view text) {
    while (!text.empty()) {
        const ssize_t put = ::write(descriptor, text.data(), text.size());
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return errno;
        text.remove_prefix(static_cast<std::size_t>(put));
    }
    return 0;
}

std::string styled(Style style, std::string_view text, bool enabled) {
    if (!enabled || style == Style::Plain) return std::string(text);
    const char* code = "0";
    switch (style) {
        case Style::Plain: break;
        case Style::Bold: code = "1"; break;
        case Style::Dim: code = "2"; break;
        case Style::Red: code = "31"; break;
        case Style::Green: code = "32"; break;
        case Style::Cyan: code = "36"; break;
    }
    return std::string("\x1b[") + code + "m" + std::string(text) + "\x1b[0m";
}

// Columns a text takes, counting one per character.
std::size_t width_of(std::string_view text) {
    std::size_t width = 0;
    for (const char c : text) width += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
    return width;
}

}  // namespace

Console::Console(bool no_color)
    : input_is_terminal_(::isatty(STDIN_FILENO) == 1),
      output_is_terminal_(::isatty(STDOUT_FILENO) == 1),
      error_is_terminal_(::isatty(STDERR_FILENO) == 1),
      color_(!no_color) {}

std::size_t Console::error_columns() const {
    struct winsize size {};
    if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return 80;
}

void Console::print(std::string_view text) {
    if (output_closed_) return;
    const int failure = write_all(STDOUT_FILENO, text);
    if (failure == 0) return;
    output_closed_ = true;
    if (failure != EPIPE) output_errno_ = failure;
}

Status Console::finish() const {
    if (output_errno_ == 0) return {};
    return Error{ErrorCode::Failed, std::string("standard output: ") + std::strerror(output_errno_)};
}

void Console::write_error(std::string_view text) {
    static_cast<void>(write_all(STDERR_FILENO, text));
}
void Console::note(std::string_view text) {
    write_error(std::string(text) + "\n");
}

std::string Console::for_error(Style style, std::string_view text) const {
    return styled(style, text, error_is_terminal_ && color_);
}
std::string Console::for_output(Style style, std::string_view text) const {
    return styled(style, text, output_is_terminal_ && color_);
}

ProgressBar::ProgressBar(Console& console, std::string label, std::uint64_t total, Unit unit)
    : console_(console), label_(std::move(label)), total_(total), unit_(unit), started_(monotonic_seconds()) {}

void ProgressBar::update(std::uint64_t done) {
    if (!console_.error_is_terminal()) return;
    const double now = monotonic_seconds();
    if (!begun_) {
        begun_ = true;
        first_done_ = done;
        started_ = now;
    }
    if (drawn_ && now - last_drawn_ < 0.1 && done != total_) return;
    const double elapsed = now - started_;
    const double rate = elapsed > 0.2 && done > first_done_ ? static_cast<double>(done - first_done_) / elapsed : 0.0;
    const std::size_t columns = console_.error_columns();
    console_.write_error("\r\x1b[K" + progress_line(label_, done, total_, rate, unit_, note_, columns));
    drawn_ = true;
    last_drawn_ = now;
}

void ProgressBar::clear() {
    if (drawn_) console_.write_error("\r\x1b[K");
    drawn_ = false;
}

std::string progress_line(std::string_view label, std::uint64_t done, std::uint64_t total, double per_second,
                          ProgressBar::Unit unit, std::string_view note, std::size_t columns) {
    const bool bytes = unit == ProgressBar::Unit::Bytes;
    std::string figures = bytes ? format_bytes(done) : std::to_string(done);
    if (total > 0) figures += " of " + (bytes ? format_bytes(total) : std::to_string(total));
    if (per_second > 0 && bytes) figures += "  " + format_bytes(static_cast<std::uint64_t>(per_second)) + "/s";
    if (per_second > 0 && total > done) {
        figures += "  " + format_duration(static_cast<double>(total - done) / per_second) + " left";
    }
    if (!note.empty()) figures += "  " + std::string(note);
    std::string line(label);
    line += "  ";
    const std::size_t used = width_of(line) + width_of(figures) + 8;  // bar ends, percent, gaps
    if (total > 0) {
        const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
        const std::size_t cells = columns > used + 10 ? std::min<std::size_t>(columns - used - 1, 30) : 0;
        if (cells > 0) {
            const std::size_t full = static_cast<std::size_t>(share * static_cast<double>(cells));
            for (std::size_t i = 0; i < cells; ++i) line += i < full ? "█" : "░";
            line += " ";
        }
        char percent[8];
        std::snprintf(percent, sizeof percent, "%3d %%", static_cast<int>(share * 100));
        line += percent;
        line += "  ";
    }
    line += figures;
    // Never wraps: a wrapped line cannot be wiped with a carriage return.
    std::size_t end = 0;
    for (std::size_t column = 0; end < line.size() && column + 1 < columns; ++column) {
        end += std::max<std::size_t>(1, decode_utf8(line, end).length);
    }
    return line.substr(0, end);
}

std::string format_bytes(std::uint64_t bytes) {
    constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    double value = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (value >= 999.95 && unit + 1 < std::size(kUnits)) {
        value /= 1000;
        ++unit;
    }
    char text[32];
    std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
    return text;
}

std::string format_duration(double seconds) {
    const long total = std::lround(std::min(std::max(seconds, 0.0), 359999.0));
    char text[32];
    if (total >= 3600) {
        std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", total / 3600, total / 60 % 60, total % 60);
    } else {
        std::snprintf(text, sizeof text, "%ld:%02ld", total / 60, total % 60);
    }
    return text;
}

std::string format_number(double value, int digits) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

}  // namespace hearth
