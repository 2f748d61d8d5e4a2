/* The n-th Fibonacci number; exact up to n = 47. */
void compute(const char* input) {
    unsigned current = 0;
    unsigned next = 1;
    for (int remaining = parse_int(input); remaining > 0; --remaining) {
        unsigned sum = current + next;
        current = next;
        next = sum;
    }
    printf("%u\n", current);
}
