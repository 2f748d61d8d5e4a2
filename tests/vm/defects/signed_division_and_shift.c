/* Signed remainder is not unsigned remainder, and an arithmetic shift keeps the sign.
 * input: -7 4 -800 3
 * output: "-3 -1 3 -3\n-100 -1 31\n" */
void compute(const char* input) {
    int a, b, c, d;
    sscanf(input, "%d %d %d %d", &a, &b, &c, &d);
    printf("%d %d %d %d\n", a % b, a / b, -a % b, a % -b);
    printf("%d %d %d\n", c >> d, c >> (d + 8), (int)((unsigned)c >> (d + 24)));
}
