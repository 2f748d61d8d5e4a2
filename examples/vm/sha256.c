/* SHA-256 (FIPS 180-4) of the input, in hexadecimal. */
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t state[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

static uint32_t rotate_right(uint32_t value, int count) {
    return value >> count | value << (32 - count);
}

static void absorb(const uint8_t* block) {
    static uint32_t schedule[64];
    for (int t = 0; t < 16; ++t) {
        const uint8_t* word = block + 4 * t;
        schedule[t] = (uint32_t)word[0] << 24 | (uint32_t)word[1] << 16 | (uint32_t)word[2] << 8 | word[3];
    }
    for (int t = 16; t < 64; ++t) {
        uint32_t x = schedule[t - 15];
        uint32_t y = schedule[t - 2];
        schedule[t] = (rotate_right(y, 17) ^ rotate_right(y, 19) ^ y >> 10) + schedule[t - 7] +
                      (rotate_right(x, 7) ^ rotate_right(x, 18) ^ x >> 3) + schedule[t - 16];
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int t = 0; t < 64; ++t) {
        uint32_t first = h + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) + ((e & f) ^ (~e & g)) +
                         constants[t] + schedule[t];
        uint32_t second =
            (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + first;
        d = c, c = b, b = a, a = first + second;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

void compute(const char* input) {
    static uint8_t block[64];
    int length = str_len(input);
    int padded_length = (length + 8) / 64 * 64 + 64; /* the text, 0x80, zeros, 8 bytes of length */
    for (int i = 0; i < padded_length; ++i) {
        uint64_t bits = (uint64_t)(uint32_t)length * 8;
        int from_end = padded_length - 1 - i;
        uint8_t byte = 0;
        if (i < length) byte = (uint8_t)input[i];
        if (i == length) byte = 0x80;
        if (from_end < 8) byte = (uint8_t)(bits >> (8 * from_end));
        block[i % 64] = byte;
        if (i % 64 == 63) absorb(block);
    }
    for (int i = 0; i < 32; ++i) {
        uint32_t byte = state[i / 4] >> (8 * (3 - i % 4)) & 255;
        putchar("0123456789abcdef"[byte >> 4]);
        putchar("0123456789abcdef"[byte & 15]);
    }
    putchar('\n');
}
