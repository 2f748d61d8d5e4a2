/* Millions of tokens with the same locals, the same memory and the same calls: the newest write must win to the end.
 * Float64 attention by position loses that after some 1.7 million.
 * input: 12345
 * output: "8f7f35d7\n" */
static unsigned table[64];

__attribute__((noinline)) static unsigned mix(unsigned a, unsigned b) {
    return a * 1664525u + (b ^ a >> 15) + 1013904223u;
}

void compute(const char* input) {
    unsigned state = (unsigned)parse_int(input);
    for (int i = 0; i < 40000; ++i) {
        state = mix(state, table[i & 63]);
        table[state & 63] += state;
    }
    printf("%x\n", state);
}
