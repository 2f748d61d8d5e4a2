// Where the program speaks: results to standard output, everything else to standard error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hearth {

enum class Style : std::uint8_t { Plain, Bold, Dim, Red, Green, Cyan };

class Console {
public:
    explicit Console(bool no_color);

    bool input_is_terminal() const { return input_is_terminal_; }
    bool output_is_terminal() const { return output_is_terminal_; }
    bool error_is_terminal() const { return error_is_terminal_; }
    std::size_t error_columns() const;  // width of the terminal on standard error

    // Writes to standard output at once. A reader that has gone away is no error: the text is dropped and
    // output_closed() says so. Any other failure (a full disk) is kept for finish().
    void print(std::string_view text);
    void print_line(std::string_view text) { print(std::string(text) + "\n"); }
    bool output_closed() const { return output_closed_; }
    Status finish() const;

    // One line to standard error.
    void note(std::string_view text);
    void write_error(std::string_view text);  // as it is, without a newline

    // `text` in a style when standard error (or output) is a terminal and colour is welcome.
    std::string for_error(Style style, std::string_view text) const;
    std::string for_output(Style style, std::string_view text) const;

private:
    bool input_is_terminal_;
    bool output_is_terminal_;
    bool error_is_terminal_;
    bool color_;
    bool output_closed_ = false;
    int output_errno_ = 0;
};

// A bar on one line of a terminal's standard error; silent elsewhere. At most ten redraws a second.
class ProgressBar {
public:
    enum class Unit : std::uint8_t { Bytes, Items };
    ProgressBar(Console& console, std::string label, std::uint64_t total, Unit unit);
    ProgressBar(const ProgressBar&) = delete;
    ProgressBar& operator=(const ProgressBar&) = delete;
    ~ProgressBar() { clear(); }

    void set_total(std::uint64_t total) { total_ = total; }
    void set_note(std::string note) { note_ = std::move(note); }  // behind the figures
    void update(std::uint64_t done);
    void clear();  // wipes the line

private:
    Console& console_;
    std::string label_;
    std::string note_;
    std::uint64_t total_;
    Unit unit_;
    double started_;
    std::uint64_t first_done_ = 0;  // where a resumed transfer began, so that the rate is true
    bool begun_ = false;
    bool drawn_ = false;
    double last_drawn_ = 0;
};

// The line a bar shows, without colour: apart for its tests.
std::string progress_line(std::string_view label, std::uint64_t done, std::uint64_t total, double per_second,
                          ProgressBar::Unit unit, std::string_view note, std::size_t columns);

std::string format_bytes(std::uint64_t bytes);        // "98.4 MB"
std::string format_duration(double seconds);          // "1:05", "2:01:05"
std::string format_number(double value, int digits);  // fixed point

}  // namespace hearth
