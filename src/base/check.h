// CHECK stops the program on our own bugs, with file and line. Never for input from outside: that is a Result.
#pragma once

namespace hearth {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace hearth

#define CHECK(condition) ((condition) ? static_cast<void>(0) : ::hearth::check_failed(#condition, __FILE__, __LINE__))

// The same in hot loops: debug builds only.
#ifdef NDEBUG
#define DCHECK(condition) static_cast<void>(0)
#else
#define DCHECK(condition) CHECK(condition)
#endif
