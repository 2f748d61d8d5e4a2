/* Everything the runtime header gives, each line with what it must print; see test_runtime.py. */
typedef struct {
    int numbers[24];
    char name[12];
} Record;

__attribute__((noinline)) static Record copy(const Record* record) {
    return *record;
}

static void check_printf(void) {
    const char* odd = "%q|100%|%";
    int written = printf("%d %d %d %d|", 0, -1, 2147483647, (int)0x80000000);
    printf("%d\n", written);
    written = printf("%u %u %x %x|", 0u, 4294967295u, 0u, 0xdeadbeefu);
    printf("%d\n", written);
    written = printf("%s|%s|%c%c%%|", "text", "", 'a', 'b');
    printf("%d\n", written);
    written = printf(odd, 1);
    printf("|%d\n", written);
    print_int(-2147483647 - 1);
    putchar(' ');
    print_int(7);
    print_str("\n");
    printf("%d %d\n", putchar(65), putchar(256 + 66));
}

static void check_numbers(void) {
    static const char* const texts[] = {"42", "  -17x", "+5", "", "x1", "-", "4294967295", "-2147483648", "\t\n 8"};
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; ++i) printf("%d ", parse_int(texts[i]));
    printf("%d %d\n", str_len(""), str_len("abc"));
}

static void check_sscanf(void) {
    int a = 100, b = 200, c = 300;
    printf("%d", sscanf("1 -2 3", "%d %d %d", &a, &b, &c));
    printf(" %d %d %d\n", a, b, c);
    printf("%d", sscanf("10,20;30", "%d,%d,%d", &a, &b, &c));
    printf(" %d %d %d\n", a, b, c);
    printf("%d %d", sscanf("", "%d", &a), sscanf("  ", "%d", &a));
    printf(" %d %d", sscanf("word", "%d", &a), sscanf("7", "%d%d", &a, &b));
    printf(" %d %d\n", sscanf("x=5", "x=%d", &c), c);
}

static void check_memory(void) {
    static char line[16] = "0123456789";
    Record record = {{0}, "name"}; /* memset, or stores of its own */
    for (int i = 0; i < 24; ++i) record.numbers[i] = i * i;
    Record second = copy(&record); /* memcpy, or stores of its own */
    printf("%d %d %s\n", second.numbers[0], second.numbers[23], second.name);
    memmove(line + 2, line, 8);
    printf("%s ", line);
    memmove(line, line + 2, 8);
    printf("%s ", line);
    memset(line + 1, '-', 3);
    memcpy(line + 6, "xyz", 3);
    memset(line, 0, 0);
    printf("%s\n", line);
}

void compute(const char* input) {
    check_printf();
    check_numbers();
    check_sscanf();
    check_memory();
    printf("<%s>\n", input);
}
