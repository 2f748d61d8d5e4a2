/* An empty input is an empty string: just its final 0.
 * output: "[] 0\n" */
void compute(const char* input) {
    printf("[%s] %d\n", input, str_len(input));
}
