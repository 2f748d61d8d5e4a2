/* Which of the given 32-bit numbers are prime? Miller-Rabin with the witnesses 2, 7 and 61, which decide every
 * number below 4,759,123,141; products of two 32-bit numbers need 64-bit arithmetic. */
static uint32_t multiply_modulo(uint32_t a, uint32_t b, uint32_t modulus) {
    return (uint32_t)((uint64_t)a * b % modulus);
}

static uint32_t power_modulo(uint32_t base, uint32_t exponent, uint32_t modulus) {
    uint32_t result = 1;
    for (base %= modulus; exponent != 0; exponent >>= 1) {
        if (exponent & 1) result = multiply_modulo(result, base, modulus);
        base = multiply_modulo(base, base, modulus);
    }
    return result;
}

/* n - 1 = odd * 2^twos. A prime n has witness^odd = 1, or one of its `twos` squarings before the last = -1. */
static int passes(uint32_t n, uint32_t witness) {
    uint32_t odd = n - 1;
    int twos = 0;
    while ((odd & 1) == 0) {
        odd >>= 1;
        ++twos;
    }
    uint32_t power = power_modulo(witness, odd, n);
    if (power == 1) return 1;
    for (; twos > 0; --twos) {
        if (power == n - 1) return 1;
        power = multiply_modulo(power, power, n);
    }
    return 0;
}

/* 0 when the number is prime, else a number that proves it is not. */
static uint32_t objection(uint32_t n) {
    static const uint8_t small[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61};
    for (unsigned i = 0; i < sizeof small; ++i)
        if (n % small[i] == 0) return n == small[i] ? 0 : small[i];
    static const uint8_t witnesses[] = {2, 7, 61};
    for (unsigned i = 0; i < sizeof witnesses; ++i)
        if (!passes(n, witnesses[i])) return witnesses[i];
    return 0;
}

void compute(const char* input) {
    int signed_number;
    uint64_t checksum = 0xcbf29ce484222325;
    while ((input = hearth_scan_int(input, &signed_number)) != NULL) {
        uint32_t number = (uint32_t)signed_number;
        uint32_t because = number < 2 ? number : objection(number);
        if (number < 2) {
            printf("%u is not a prime\n", number);
        } else if (because == 0) {
            printf("%u is prime\n", number);
        } else if (number % because == 0) {
            printf("%u is divisible by %u\n", number, because);
        } else {
            printf("%u is composite, witness %u\n", number, because);
        }
        checksum = (checksum ^ number) * 0x100000001b3;
    }
    printf("checksum %x:%x\n", (uint32_t)(checksum >> 32), (uint32_t)checksum);
}
