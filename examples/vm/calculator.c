/* Evaluates integer expressions: + - * / % ^ (power), unary minus, brackets, and min, max, gcd, fact by name.
 * The parser calls itself for every bracket; operators and functions are reached through a table of pointers. */
typedef int (*Operation)(int, int);

static int add(int a, int b) {
    return a + b;
}
static int subtract(int a, int b) {
    return a - b;
}
static int multiply(int a, int b) {
    return a * b;
}

static const char* problem; /* the first thing that went wrong, or NULL */

static int divide(int a, int b) {
    if (b == 0) problem = "division by zero";
    return b == 0 ? 0 : a / b;
}

static int remainder(int a, int b) {
    if (b == 0) problem = "division by zero";
    return b == 0 ? 0 : a % b;
}

static int power(int base, int exponent) {
    if (exponent <= 0) return exponent == 0;
    int half = power(base, exponent / 2);
    return exponent % 2 == 0 ? half * half : half * half * base;
}

static int minimum(int a, int b) {
    return a < b ? a : b;
}
static int maximum(int a, int b) {
    return a > b ? a : b;
}
static int greatest_divisor(int a, int b) {
    return b == 0 ? a : greatest_divisor(b, a % b);
}
static int factorial(int n, int unused) {
    return n <= 1 ? 1 : n * factorial(n - 1, unused);
}

typedef struct {
    char symbol;
    char rank;          /* higher binds tighter */
    char right_to_left; /* 2^3^2 = 2^(3^2) */
    Operation apply;
} Operator;

static const Operator operators[] = {
    {'+', 1, 0, add},    {'-', 1, 0, subtract},  {'*', 2, 0, multiply},
    {'/', 2, 0, divide}, {'%', 2, 0, remainder}, {'^', 3, 1, power},
};

typedef struct {
    const char* name;
    int arguments;
    Operation apply;
} Function;

static const Function functions[] = {
    {"min", 2, minimum},
    {"max", 2, maximum},
    {"gcd", 2, greatest_divisor},
    {"fact", 1, factorial},
};

static const char* cursor;

static int expression(int rank);

static int accept(char expected) {
    while (*cursor == ' ') ++cursor;
    if (*cursor != expected) return 0;
    ++cursor;
    return 1;
}

static void require(char expected, const char* complaint) {
    if (!accept(expected) && problem == NULL) problem = complaint;
}

static int accept_word(const char* word) {
    int length = 0;
    while (word[length] != 0 && cursor[length] == word[length]) ++length;
    if (word[length] != 0) return 0;
    cursor += length;
    return 1;
}

static int call(const Function* function) {
    int second = 0;
    require('(', "expected (");
    int first = expression(1);
    if (function->arguments == 2) {
        require(',', "expected ,");
        second = expression(1);
    }
    require(')', "expected )");
    return problem == NULL ? function->apply(first, second) : 0;
}

static int operand(void) {
    if (accept('-')) return -expression(3); /* -2^2 = -(2^2) */
    if (accept('(')) {
        int value = expression(1);
        require(')', "expected )");
        return value;
    }
    for (unsigned i = 0; i < sizeof functions / sizeof functions[0]; ++i)
        if (accept_word(functions[i].name)) return call(&functions[i]);
    int value = 0;
    const char* rest = *cursor >= '0' && *cursor <= '9' ? hearth_scan_int(cursor, &value) : NULL;
    if (rest == NULL) {
        if (problem == NULL) problem = "expected a number";
        return 0;
    }
    cursor = rest;
    return value;
}

/* What follows, as long as its operators bind at least as tightly as `rank`. */
static int expression(int rank) {
    int value = operand();
    while (problem == NULL) {
        const Operator* found = NULL;
        while (*cursor == ' ') ++cursor;
        for (unsigned i = 0; i < sizeof operators / sizeof operators[0]; ++i)
            if (operators[i].symbol == *cursor && operators[i].rank >= rank) found = &operators[i];
        if (found == NULL) break;
        ++cursor;
        value = found->apply(value, expression(found->rank + !found->right_to_left));
    }
    return value;
}

/* Expressions are separated by semicolons. */
void compute(const char* input) {
    cursor = input;
    do {
        problem = NULL;
        int value = expression(1);
        if (problem == NULL && !accept(';') && *cursor != 0) problem = "expected an operator";
        if (problem != NULL) {
            printf("error: %s at %d\n", problem, (int)(cursor - input));
            return;
        }
        printf("%d\n", value);
    } while (*cursor != 0);
}
