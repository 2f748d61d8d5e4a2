// The global functions: range, namespace, dict, raise_exception, strftime_now.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja/python_text.h"
#include "text/jinja/runtime.h"

namespace hearth::jinja {

namespace {

constexpr std::string_view kFunctions[] = {"range", "namespace", "dict", "raise_exception", "strftime_now"};
constexpr std::uint64_t kRangeLimit = 100'000;  // the original's sandbox has the same

constexpr std::string_view kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                        "July",    "August",   "September", "October", "November", "December"};
constexpr std::string_view kDays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};

struct Calendar {
    std::int64_t year = 1970;
    int month = 1;  // 1 to 12
    int day = 1;    // 1 to 31
    int hour = 0;
    int minute = 0;
    int second = 0;
    int microsecond = 0;
    int weekday = 4;      // 0 is Sunday
    int day_of_year = 1;  // 1 to 366
};

// Days since the epoch to a date of the proleptic Gregorian calendar, counted in eras of 400 years from 1 March.
Calendar calendar_of(double seconds) {
    // Years 0001 to 9999, as far as dates go.
    seconds = std::isfinite(seconds) ? std::clamp(seconds, -62135596800.0, 253402300799.0) : 0.0;
    const double whole = std::floor(seconds);
    const std::int64_t total = static_cast<std::int64_t>(whole);
    const std::int64_t second_of_day = ((total % 86400) + 86400) % 86400;
    const std::int64_t days = (total - second_of_day) / 86400;
    const std::int64_t shifted = days + 719468;
    const std::int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    const std::int64_t day_of_era = shifted - era * 146097;
    const std::int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    const std::int64_t from_march = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    const std::int64_t month_from_march = (5 * from_march + 2) / 153;
    Calendar out;
    out.day = static_cast<int>(from_march - (153 * month_from_march + 2) / 5 + 1);
    out.month = static_cast<int>(month_from_march < 10 ? month_from_march + 3 : month_from_march - 9);
    out.year = year_of_era + era * 400 + (out.month <= 2 ? 1 : 0);
    out.hour = static_cast<int>(second_of_day / 3600);
    out.minute = static_cast<int>(second_of_day / 60 % 60);
    out.second = static_cast<int>(second_of_day % 60);
    out.microsecond = static_cast<int>((seconds - whole) * 1e6);
    out.weekday = static_cast<int>(((days + 4) % 7 + 7) % 7);
    const bool leap = (out.year % 4 == 0 && out.year % 100 != 0) || out.year % 400 == 0;
    constexpr int kBefore[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    out.day_of_year = kBefore[out.month - 1] + out.day + (leap && out.month > 2 ? 1 : 0);
    return out;
}

std::string padded(std::int64_t number, int width, char fill = '0') {
    std::string digits = std::to_string(number);
    if (static_cast<int>(digits.size()) < width)
        digits.insert(0, static_cast<std::size_t>(width) - digits.size(), fill);
    return digits;
}

// One directive of strftime in the C locale; false for one that is not known.
bool append_directive(std::string& out, char directive, const Calendar& at, double seconds) {
    const int hour12 = at.hour % 12 == 0 ? 12 : at.hour % 12;
    const std::string_view month = kMonths[at.month - 1];
    const std::string_view day = kDays[at.weekday];
    switch (directive) {
        case 'Y': out += std::to_string(at.year); break;
        case 'y': out += padded(at.year % 100, 2); break;
        case 'C': out += padded(at.year / 100, 2); break;
        case 'm': out += padded(at.month, 2); break;
        case 'B': out += month; break;
        case 'b':
        case 'h': out += month.substr(0, 3); break;
        case 'd': out += padded(at.day, 2); break;
        case 'e': out += padded(at.day, 2, ' '); break;
        case 'j': out += padded(at.day_of_year, 3); break;
        case 'A': out += day; break;
        case 'a': out += day.substr(0, 3); break;
        case 'w': out += std::to_string(at.weekday); break;
        case 'u': out += std::to_string(at.weekday == 0 ? 7 : at.weekday); break;
        case 'U': out += padded((at.day_of_year + 6 - at.weekday) / 7, 2); break;
        case 'W': out += padded((at.day_of_year + 6 - (at.weekday + 6) % 7) / 7, 2); break;
        case 'H': out += padded(at.hour, 2); break;
        case 'I': out += padded(hour12, 2); break;
        case 'M': out += padded(at.minute, 2); break;
        case 'S': out += padded(at.second, 2); break;
        case 'f': out += padded(at.microsecond, 6); break;
        case 'p': out += at.hour < 12 ? "AM" : "PM"; break;
        case 's': out += std::to_string(static_cast<std::int64_t>(seconds)); break;
        case 'Z': break;  // a time without a zone, as the original's
        case 'z': break;
        case 'n': out += '\n'; break;
        case 't': out += '\t'; break;
        case '%': out += '%'; break;
        default: return false;
    }
    return true;
}

}  // namespace

std::string format_time(std::string_view pattern, double seconds) {
    const Calendar at = calendar_of(seconds);
    std::string out;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        if (pattern[i] != '%' || i + 1 >= pattern.size()) {
            out.push_back(pattern[i]);
            continue;
        }
        const char directive = pattern[++i];
        switch (directive) {
            case 'F': out += format_time("%Y-%m-%d", seconds); break;
            case 'T':
            case 'X': out += format_time("%H:%M:%S", seconds); break;
            case 'D':
            case 'x': out += format_time("%m/%d/%y", seconds); break;
            case 'R': out += format_time("%H:%M", seconds); break;
            case 'r': out += format_time("%I:%M:%S %p", seconds); break;
            case 'c': out += format_time("%a %b %e %H:%M:%S %Y", seconds); break;
            case '-': {  // %-d: without the leading zero
                std::string piece;
                if (i + 1 < pattern.size() && append_directive(piece, pattern[i + 1], at, seconds)) {
                    ++i;
                    const std::size_t zeros = piece.find_first_not_of("0 ");
                    out += zeros == std::string::npos ? "0" : piece.substr(zeros);
                } else {
                    out += "%-";
                }
                break;
            }
            default:
                if (!append_directive(out, directive, at, seconds)) out += {'%', directive};
        }
    }
    return out;
}

bool is_global_function(std::string_view name) {
    return std::find(std::begin(kFunctions), std::end(kFunctions), name) != std::end(kFunctions);
}

Result<Value> Runtime::function(std::string_view name, const Arguments& arguments) {
    TRY(charge(1));
    if (name == "raise_exception") {
        const Bound bound = TRY(Bound::bind(*this, name, arguments, {"message"}, 1));
        return fail(TRY(print(*bound[0])));
    }
    if (name == "strftime_now") {
        const Bound bound = TRY(Bound::bind(*this, name, arguments, {"format"}, 1));
        if (bound.text(0) == nullptr) return fail("strftime_now() needs a format");
        TRY(charge(bound.text(0)->size()));
        TRY(charge_text(bound.text(0)->size() * 16));
        return text(format_time(*bound.text(0), now_seconds_));
    }
    if (name == "range") return make_range(arguments);
    // namespace() and dict(): an optional mapping or list of pairs, then keywords.
    Dict attributes;
    if (arguments.positional.size() > 1) return fail(std::string(name) + "() takes at most one positional argument");
    if (!arguments.positional.empty()) {
        const Value& base = arguments.positional[0];
        TRY(refuse_undefined(base));
        if (const Dict* dict = base.as_dict()) {
            TRY(charge(dict->entries.size()));
            attributes = *dict;
        } else {
            const std::shared_ptr<const Sequence> pairs = TRY(iterate(base));
            for (const Value& pair : pairs->items) {
                const std::shared_ptr<const Sequence> parts = TRY(iterate(pair));
                std::string identity;
                if (parts->items.size() != 2 || !key_identity(parts->items[0], identity))
                    return fail("not a key and a value");
                TRY(charge(1));
                attributes.put(parts->items[0], parts->items[1]);
            }
        }
    }
    for (const auto& [key, value] : arguments.named) attributes.put(Value(key), value);
    if (name == "dict") return dict(std::move(attributes));
    TRY(charge_memory(sizeof(Namespace) + attributes.entries.size() * 4 * sizeof(Value)));
    return make_namespace(std::move(attributes));
}

Result<Value> Runtime::make_range(const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(*this, "range", arguments, {"start", "stop", "step"}, 1));
    std::int64_t numbers[3] = {0, 0, 1};
    for (std::size_t i = 0; i < 3; ++i) {
        if (bound[i] != nullptr && !bound[i]->to_integer(numbers[i])) {
            TRY(refuse_undefined(*bound[i]));
            return fail(quoted_type(*bound[i]) + " object cannot be interpreted as an integer");
        }
    }
    if (bound[1] == nullptr) std::swap(numbers[0], numbers[1]);
    const auto [start, stop, step] = numbers;
    if (step == 0) return fail("range() arg 3 must not be zero");
    // In unsigned arithmetic, which the widest range does not overflow.
    const auto low = static_cast<std::uint64_t>(step > 0 ? start : stop);
    const auto high = static_cast<std::uint64_t>(step > 0 ? stop : start);
    const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
    const bool empty = step > 0 ? start >= stop : start <= stop;
    const std::uint64_t count = empty ? 0 : (high - low - 1) / stride + 1;
    if (count > kRangeLimit) {
        return fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (" + std::to_string(kRangeLimit) +
                    ").");
    }
    Values items;
    TRY(charge(count / 16));
    items.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t value = static_cast<std::uint64_t>(start) + i * static_cast<std::uint64_t>(step);
        items.emplace_back(static_cast<std::int64_t>(value));
    }
    return sequence(SequenceKind::Range, std::move(items));
}

}  // namespace hearth::jinja
