/* Two variables through and, or, xor: a wrong lowering gives (b ? a : 0), (b ? 1 : a), a != b.
 * input: 12 10
 * output: "and=8 or=14 xor=6\nand=d014014 or=9feff5f6 xor=92eeb5e2 not=f258bf2b\n" */
void compute(const char* input) {
    int a, b;
    sscanf(input, "%d %d", &a, &b);
    printf("and=%d or=%d xor=%d\n", a & b, a | b, a ^ b);
    a *= 0x01234567;
    b *= 0x7654321f;
    printf("and=%x or=%x xor=%x not=%x\n", (unsigned)(a & b), (unsigned)(a | b), (unsigned)(a ^ b), (unsigned)~a);
}
