/* What a C program for the transformer VM may call. Included by itself in front of every program, once; the program's
 * entry point is `void compute(const char *input)`. Everything here is freestanding C99 for wasm32: no libc, no
 * builtins; the only way out of the machine is the host import env.output_byte. */
#ifndef HEARTH_VM_H
#define HEARTH_VM_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

__attribute__((import_module("env"), import_name("output_byte"))) void output_byte(int byte);

__attribute__((export_name("compute"))) void compute(const char* input);

/* --- memory: the compiler itself calls these for struct copies and array initialisers --- */

/* Not static, or the compiler could not find them by name; the linker drops those that nobody calls. */
__attribute__((weak)) void* memcpy(void* restrict to, const void* restrict from, size_t count) {
    unsigned char* out = to;
    const unsigned char* in = from;
    while (count-- != 0) *out++ = *in++;
    return to;
}

__attribute__((weak)) void* memmove(void* to, const void* from, size_t count) {
    unsigned char* out = to;
    const unsigned char* in = from;
    if ((uintptr_t)out <= (uintptr_t)in) {
        while (count-- != 0) *out++ = *in++;
    } else {
        while (count-- != 0) out[count] = in[count];
    }
    return to;
}

__attribute__((weak)) void* memset(void* to, int byte, size_t count) {
    unsigned char* out = to;
    while (count-- != 0) *out++ = (unsigned char)byte;
    return to;
}

/* --- output --- */

static inline int putchar(int byte) {
    output_byte(byte & 255);
    return byte & 255;
}

static inline int str_len(const char* text) {
    int length = 0;
    while (text[length] != 0) ++length;
    return length;
}

static inline void print_str(const char* text) {
    while (*text != 0) putchar(*text++);
}

/* Bases 10 and 16; gives the number of characters written. */
static int hearth_print_unsigned(unsigned value, unsigned base) {
    char digits[10];
    int count = 0;
    do {
        unsigned digit = value % base;
        digits[count++] = (char)(digit < 10 ? '0' + digit : 'a' + digit - 10);
        value /= base;
    } while (value != 0);
    for (int i = count; i-- > 0;) putchar(digits[i]);
    return count;
}

static int hearth_print_signed(int value) {
    if (value >= 0) return hearth_print_unsigned((unsigned)value, 10);
    putchar('-');
    return 1 + hearth_print_unsigned(0u - (unsigned)value, 10); /* right for the smallest int too */
}

static inline void print_int(int value) {
    hearth_print_signed(value);
}

/* %d %u %x %s %c %%; any other conversion is printed as it stands. Gives the number of characters written. */
__attribute__((format(printf, 1, 2), unused)) static int printf(const char* format, ...) {
    va_list arguments;
    int written = 0;
    va_start(arguments, format);
    for (; *format != 0; ++format) {
        if (*format != '%' || format[1] == 0) {
            putchar(*format);
            ++written;
            continue;
        }
        ++format;
        if (*format == 'd') {
            written += hearth_print_signed(va_arg(arguments, int));
        } else if (*format == 'u' || *format == 'x') {
            written += hearth_print_unsigned(va_arg(arguments, unsigned), *format == 'u' ? 10 : 16);
        } else if (*format == 's') {
            for (const char* text = va_arg(arguments, const char*); *text != 0; ++text, ++written) putchar(*text);
        } else if (*format == 'c') {
            putchar(va_arg(arguments, int));
            ++written;
        } else {
            if (*format != '%') {
                putchar('%');
                ++written;
            }
            putchar(*format);
            ++written;
        }
    }
    va_end(arguments);
    return written;
}

/* --- input --- */

static inline int hearth_is_space(char byte) {
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* Reads blanks, a sign and digits; gives where it stopped, or NULL without a digit. Wraps around beyond 32 bits. */
static inline const char* hearth_scan_int(const char* text, int* value) {
    unsigned magnitude = 0;
    int negative = 0;
    while (hearth_is_space(*text)) ++text;
    if (*text == '-' || *text == '+') negative = *text++ == '-';
    if (*text < '0' || *text > '9') return NULL;
    while (*text >= '0' && *text <= '9') magnitude = magnitude * 10 + (unsigned)(*text++ - '0');
    *value = (int)(negative ? 0u - magnitude : magnitude);
    return text;
}

/* The integer that `text` begins with; 0 when there is none. */
static inline int parse_int(const char* text) {
    int value = 0;
    hearth_scan_int(text, &value);
    return value;
}

/* %d, blanks and literal characters. Gives the number of integers read, or -1 when the text ends before the first. */
__attribute__((format(scanf, 2, 3), unused)) static int sscanf(const char* text, const char* format, ...) {
    va_list arguments;
    int stored = 0;
    va_start(arguments, format);
    for (; *format != 0; ++format) {
        if (hearth_is_space(*format)) {
            while (hearth_is_space(*text)) ++text;
        } else if (*format == '%' && format[1] == 'd') {
            int value;
            while (hearth_is_space(*text)) ++text;
            if (*text == 0 && stored == 0) stored = -1;
            text = hearth_scan_int(text, &value);
            if (text == NULL) break;
            *va_arg(arguments, int*) = value;
            ++stored;
            ++format;
        } else if (*format == *text) {
            ++text;
        } else {
            break;
        }
    }
    va_end(arguments);
    return stored;
}

#endif
