/* Adds two decimal numbers of any length, A+B, digit by digit from the right as on paper. */
enum { kMaximumDigits = 1000 };

static char sum[kMaximumDigits + 2];

void compute(const char* input) {
    int plus = 0;
    while (input[plus] != 0 && input[plus] != '+') ++plus;
    int end = str_len(input);
    if (input[plus] == 0 || plus > kMaximumDigits || end - plus - 1 > kMaximumDigits) {
        print_str("expected A+B\n");
        return;
    }
    int left = plus;
    int right = end;
    int position = kMaximumDigits + 1; /* sum[position] is the last digit written; its terminating 0 stays behind it */
    int carry = 0;
    while (left > 0 || right > plus + 1 || carry != 0) {
        int digit = carry;
        if (left > 0) digit += input[--left] - '0';
        if (right > plus + 1) digit += input[--right] - '0';
        carry = digit >= 10;
        if (carry) digit -= 10;
        sum[--position] = (char)('0' + digit);
    }
    print_str(sum + position);
    putchar('\n');
}
