/* Greets its input. */
void compute(const char* input) {
    print_str("Hello ");
    print_str(input);
    print_str("!\n");
}
