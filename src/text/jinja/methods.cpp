// Methods of strings, dicts, lists and loops. What changes its object is refused, as in the original's sandbox.
#include <algorithm>

#include "text/jinja/python_text.h"
#include "text/jinja/runtime.h"

namespace hearth::jinja {

namespace {

constexpr std::string_view kTextMethods[] = {
    "strip",   "lstrip",    "rstrip",    "split",        "rsplit",       "splitlines", "startswith", "endswith",
    "upper",   "lower",     "title",     "capitalize",   "replace",      "find",       "rfind",      "index",
    "count",   "join",      "format",    "isdigit",      "isalpha",      "isalnum",    "isspace",    "isupper",
    "islower", "isnumeric", "isdecimal", "removeprefix", "removesuffix", "zfill",      "ljust",      "rjust",
    "center",  "swapcase",  "partition", "rpartition",   "casefold"};
constexpr std::string_view kDictMethods[] = {"get", "items", "keys", "values", "copy"};
constexpr std::string_view kUnsafeDictMethods[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kListMethods[] = {"count", "index", "copy"};
constexpr std::string_view kTupleMethods[] = {"count", "index"};
constexpr std::string_view kUnsafeListMethods[] = {"append", "clear",  "pop",    "reverse",
                                                   "insert", "extend", "remove", "sort"};
constexpr std::string_view kLoopMethods[] = {"cycle", "changed"};

template <typename Names>
bool has(const Names& names, std::string_view name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool all_points(std::string_view text, bool (*holds)(std::uint32_t)) {
    for (std::size_t at = 0; at < text.size(); at += code_point_at(text, at).length) {
        if (!holds(code_point_at(text, at).value)) return false;
    }
    return !text.empty();
}

bool is_digit_point(std::uint32_t point) {
    return point >= '0' && point <= '9';
}
bool is_cased(std::string_view text, std::string (*convert)(std::string_view)) {
    return convert(text) == text && to_upper(text) != to_lower(text);
}

std::string swapped_case(std::string_view text) {
    std::string out;
    for (std::size_t at = 0; at < text.size(); at += code_point_at(text, at).length) {
        const std::uint32_t point = code_point_at(text, at).value;
        append_utf8(out, lower_point(point) != point ? lower_point(point) : upper_point(point));
    }
    return out;
}

Result<Value> views_to_list(Runtime& runtime, const std::vector<std::string_view>& parts, SequenceKind kind) {
    TRY(runtime.charge(parts.size()));
    TRY(runtime.charge_memory(parts.size() * 48));  // a string object each
    Values items;
    items.reserve(parts.size());
    for (const std::string_view part : parts) items.push_back(TRY(runtime.text(std::string(part))));
    return runtime.sequence(kind, std::move(items));
}

// startswith and endswith: one string or a tuple of them.
Result<Value> has_affix(Runtime& runtime, std::string_view self, std::string_view name, const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(runtime, name, arguments, {"prefix"}, 1));
    const Sequence* several = bound[0]->as_sequence();
    const Values affixes =
        several != nullptr && several->kind == SequenceKind::Tuple ? several->items : Values{*bound[0]};
    for (const Value& affix : affixes) {
        const std::string* text = affix.as_string();
        if (text == nullptr) {
            return runtime.fail(std::string(name) + " first arg must be str or a tuple of str, not " +
                                std::string(type_name(affix)));
        }
        TRY(runtime.charge_work(text->size()));
        if (name == "startswith" ? self.starts_with(*text) : self.ends_with(*text)) return Value(true);
    }
    return Value(false);
}

Result<Value> split_method(Runtime& runtime, std::string_view self, std::string_view name, const Arguments& arguments) {
    if (name == "splitlines") {
        const Bound bound = TRY(Bound::bind(runtime, name, arguments, {"keepends"}));
        return views_to_list(runtime, split_lines(self, bound.flag(0, false)), SequenceKind::List);
    }
    if (name == "partition" || name == "rpartition") {
        const Bound bound = TRY(Bound::bind(runtime, name, arguments, {"sep"}, 1));
        const std::string* separator = bound.text(0);
        if (separator == nullptr || separator->empty()) return runtime.fail("empty separator");
        const std::size_t at = name == "partition" ? find_text(self, *separator) : rfind_text(self, *separator);
        std::vector<std::string_view> parts = {self, "", ""};
        if (at != std::string_view::npos) {
            parts = {self.substr(0, at), *separator, self.substr(at + separator->size())};
        } else if (name == "rpartition") {
            parts = {"", "", self};
        }
        return views_to_list(runtime, parts, SequenceKind::Tuple);
    }
    const Bound bound = TRY(Bound::bind(runtime, name, arguments, {"sep", "maxsplit"}));
    const std::string* separator = bound.text(0);
    if (separator != nullptr && separator->empty()) return runtime.fail("empty separator");
    if (separator == nullptr && bound[0] != nullptr && !bound[0]->is_none()) {
        return runtime.fail("must be str or None, not " + std::string(type_name(*bound[0])));
    }
    // Each piece is a view first: bound their number by the text before making them.
    TRY(runtime.charge_memory(self.size()));
    const std::int64_t limit = bound.integer(1, -1);
    return views_to_list(runtime, name == "split" ? split(self, separator, limit) : rsplit(self, separator, limit),
                         SequenceKind::List);
}

// find, rfind, index and count; places are counted in code points.
Result<Value> find_method_of_text(Runtime& runtime, std::string_view self, std::string_view name,
                                  const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(runtime, name, arguments, {"sub", "start"}, 1));
    const std::string* needle = bound.text(0);
    if (needle == nullptr) return runtime.fail("must be str, not " + std::string(type_name(*bound[0])));
    std::size_t from = 0;
    std::int64_t start = bound.integer(1, 0);
    if (start < 0) start = std::max<std::int64_t>(0, start + static_cast<std::int64_t>(code_point_count(self)));
    for (std::int64_t i = 0; i < start && from < self.size(); ++i) from += code_point_at(self, from).length;
    if (name == "count") {
        if (needle->empty()) return Value::integer(code_point_count(self.substr(from)) + 1);
        std::size_t found = 0;
        for (std::size_t at = find_text(self, *needle, from); at != std::string_view::npos;
             at = find_text(self, *needle, at + needle->size())) {
            ++found;
        }
        return Value::integer(found);
    }
    std::size_t at = std::string_view::npos;
    if (name == "rfind") {
        at = rfind_text(self.substr(from), *needle);
        if (at != std::string_view::npos) at += from;
    } else {
        at = find_text(self, *needle, from);
    }
    if (at != std::string_view::npos) return Value::integer(code_point_count(self.substr(0, at)));
    if (name == "index") return runtime.fail("substring not found");
    return Value(std::int64_t{-1});
}

Result<Value> padded_text(Runtime& runtime, std::string_view self, std::string_view name, const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(runtime, name, arguments, {"width", "fillchar"}, 1));
    const std::string fill = name == "zfill" ? "0" : bound.text(1) != nullptr ? *bound.text(1) : " ";
    if (code_point_count(fill) != 1) return runtime.fail("The fill character must be exactly one character long");
    const std::int64_t missing = bound.integer(0, 0) - static_cast<std::int64_t>(code_point_count(self));
    if (missing <= 0) return runtime.text(std::string(self));
    const std::size_t count = static_cast<std::size_t>(missing);
    if (count > runtime.limits().output_bytes) return runtime.fail("pads a text beyond the limit");
    TRY(runtime.charge_text(count * fill.size()));
    std::size_t left = name == "ljust" ? 0 : count;
    const std::size_t width = count + code_point_count(self);
    if (name == "center") left = count / 2 + (count & width & 1);  // Python's rounding of the odd cell
    std::string out;
    const bool sign = name == "zfill" && !self.empty() && (self[0] == '-' || self[0] == '+');
    if (sign) out += self[0];
    for (std::size_t i = 0; i < left; ++i) out += fill;
    out += self.substr(sign ? 1 : 0);
    for (std::size_t i = left; i < count; ++i) out += fill;
    return runtime.text(std::move(out));
}

Result<Value> text_question(Runtime& runtime, std::string_view self, std::string_view name,
                            const Arguments& arguments) {
    TRY(Bound::bind(runtime, name, arguments, {}));
    if (name == "isspace") return Value(all_points(self, is_space));
    if (name == "isalpha") return Value(all_points(self, is_letter));
    if (name == "isalnum") {
        return Value(all_points(self, [](std::uint32_t point) { return is_letter(point) || is_digit_point(point); }));
    }
    if (name == "isupper") return Value(is_cased(self, to_upper));
    if (name == "islower") return Value(is_cased(self, to_lower));
    return Value(all_points(self, is_digit_point));
}

Result<Value> replace_method(Runtime& runtime, std::string_view self, const Arguments& arguments) {
    const Bound bound = TRY(Bound::bind(runtime, "replace", arguments, {"old", "new", "count"}, 2));
    const std::string* from = bound.text(0);
    const std::string* to = bound.text(1);
    if (from == nullptr || to == nullptr) return runtime.fail("replace() argument must be str");
    return runtime.text(TRY(runtime.replaced(self, *from, *to, bound.integer(2, -1))));
}

Result<Value> text_method(Runtime& runtime, const std::string& self, std::string_view name,
                          const Arguments& arguments) {
    TRY(runtime.charge_work(4 * self.size()));
    if (name == "strip" || name == "lstrip" || name == "rstrip") {
        const Bound bound = TRY(Bound::bind(runtime, name, arguments, {"chars"}));
        if (bound[0] != nullptr && bound.text(0) == nullptr && !bound[0]->is_none()) {
            return runtime.fail(std::string(name) + " arg must be None or str");
        }
        return runtime.text(std::string(strip(self, bound.text(0), name != "rstrip", name != "lstrip")));
    }
    if (name == "startswith" || name == "endswith") return has_affix(runtime, self, name, arguments);
    if (name == "replace") return replace_method(runtime, self, arguments);
    if (name == "find" || name == "rfind" || name == "index" || name == "count") {
        return find_method_of_text(runtime, self, name, arguments);
    }
    if (name == "join") {
        const Bound bound = TRY(Bound::bind(runtime, name, arguments, {"iterable"}, 1));
        return runtime.join(*bound[0], self, Runtime::JoinElements::OnlyText);
    }
    if (name == "format") return runtime.text(TRY(runtime.format_braces(self, arguments)));
    if (name.starts_with("is")) return text_question(runtime, self, name, arguments);
    if (name == "zfill" || name == "ljust" || name == "rjust" || name == "center") {
        return padded_text(runtime, self, name, arguments);
    }
    if (name == "removeprefix" || name == "removesuffix") {
        const Bound bound = TRY(Bound::bind(runtime, name, arguments, {"affix"}, 1));
        const std::string* affix = bound.text(0);
        if (affix == nullptr) return runtime.fail(std::string(name) + "() argument must be str");
        const bool front = name == "removeprefix";
        if (front ? !self.starts_with(*affix) : !self.ends_with(*affix)) return runtime.text(self);
        return runtime.text(self.substr(front ? affix->size() : 0, self.size() - affix->size()));
    }
    if (name.find("split") != std::string_view::npos || name.ends_with("partition")) {
        return split_method(runtime, self, name, arguments);
    }
    TRY(Bound::bind(runtime, name, arguments, {}));
    if (name == "upper") return runtime.text(to_upper(self));
    if (name == "title") return runtime.text(title(self));
    if (name == "capitalize") return runtime.text(capitalize(self));
    if (name == "swapcase") return runtime.text(swapped_case(self));
    return runtime.text(to_lower(self));  // lower and casefold
}

Result<Value> dict_method(Runtime& runtime, const Value& self, std::string_view name, const Arguments& arguments) {
    const Dict& dict = *self.as_dict();
    if (name == "get") {
        const Bound bound = TRY(Bound::bind(runtime, name, arguments, {"key", "default"}, 1));
        if (const Value* found = dict.find(*bound[0])) return *found;
        return bound[1] == nullptr ? Value(None{}) : *bound[1];
    }
    TRY(Bound::bind(runtime, name, arguments, {}));
    if (name == "copy") return self;
    TRY(runtime.charge(dict.entries.size()));
    if (name == "items") return runtime.dict_items(dict, SequenceKind::ItemsView);
    Values items;
    for (const auto& [key, value] : dict.entries) items.push_back(name == "keys" ? key : value);
    return runtime.sequence(name == "keys" ? SequenceKind::KeysView : SequenceKind::ValuesView, std::move(items));
}

Result<Value> list_method(Runtime& runtime, const Value& self, std::string_view name, const Arguments& arguments) {
    if (name == "copy") return self;
    const Bound bound = TRY(Bound::bind(runtime, name, arguments, {"value"}, 1));
    std::size_t count = 0;
    const Values& items = self.as_sequence()->items;
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (!TRY(runtime.equal(items[i], *bound[0]))) continue;
        if (name == "index") return Value::integer(i);
        ++count;
    }
    if (name == "index") return runtime.fail("the value is not in the list");
    return Value::integer(count);
}

Result<Value> loop_method(Runtime& runtime, Loop& loop, std::string_view name, const Arguments& arguments) {
    if (name == "cycle") {
        if (arguments.positional.empty()) return runtime.fail("no items for cycling given");
        return arguments.positional[loop.index % arguments.positional.size()];
    }
    const Value seen = TRY(runtime.sequence(SequenceKind::Tuple, arguments.positional));
    if (loop.has_changed_value && TRY(runtime.equal(loop.last_changed, seen))) return Value(false);
    // Kept as text of its values would lose types; a loop among them would be a cycle, so those are refused.
    for (const Value& value : arguments.positional) {
        if (value.as_loop() != nullptr || value.as_callable() != nullptr || value.depth() > 1) {
            return runtime.fail("loop.changed() takes plain values");
        }
    }
    loop.has_changed_value = true;
    loop.last_changed = seen;
    return Value(true);
}

}  // namespace

MethodKind find_method(const Value& object, std::string_view name) {
    if (object.as_string() != nullptr) return has(kTextMethods, name) ? MethodKind::Safe : MethodKind::None;
    if (object.as_loop() != nullptr) return has(kLoopMethods, name) ? MethodKind::Safe : MethodKind::None;
    if (object.as_dict() != nullptr) {
        if (has(kDictMethods, name)) return MethodKind::Safe;
        return has(kUnsafeDictMethods, name) ? MethodKind::Unsafe : MethodKind::None;
    }
    const Sequence* sequence = object.as_sequence();
    if (sequence == nullptr) return MethodKind::None;
    if (sequence->kind == SequenceKind::Tuple || sequence->kind == SequenceKind::Range) {
        return has(kTupleMethods, name) ? MethodKind::Safe : MethodKind::None;
    }
    if (sequence->kind != SequenceKind::List) return MethodKind::None;
    if (has(kListMethods, name)) return MethodKind::Safe;
    return has(kUnsafeListMethods, name) ? MethodKind::Unsafe : MethodKind::None;
}

Result<Value> Runtime::method(const Value& self, std::string_view name, const Arguments& arguments) {
    TRY(charge(1));
    if (const std::string* content = self.as_string()) return text_method(*this, *content, name, arguments);
    if (self.as_dict() != nullptr) return dict_method(*this, self, name, arguments);
    if (Loop* loop = self.as_loop()) return loop_method(*this, *loop, name, arguments);
    return list_method(*this, self, name, arguments);
}

}  // namespace hearth::jinja
