/* The Collatz sequence from n down to 1. */
void compute(const char* input) {
    unsigned n = (unsigned)parse_int(input);
    if (n == 0) n = 1;
    printf("%u", n);
    while (n != 1) {
        n = n % 2 == 0 ? n / 2 : 3 * n + 1;
        printf(" %u", n);
    }
    putchar('\n');
}
