/* A product must not cost tokens in proportion to its operands: 1000*1000 once took 13.8 million.
 * input: 1000 1000
 * output: "1000000 142857 27 256000\n" */
void compute(const char* input) {
    int a, b;
    sscanf(input, "%d %d", &a, &b);
    printf("%d %d %d %d\n", a * b, a * b / 7, a * b % 97, a << (b & 15));
}
