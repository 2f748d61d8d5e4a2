// A file that breaks the rule of tools/check_weak_symbols.py: an inline function that a caller elsewhere could share.
inline int shared_by_everyone(int x) {
    return x + 1;
}
int (*use_of_it)(int) = shared_by_everyone;
