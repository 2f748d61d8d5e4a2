# Comparisons without side effects on the floating-point flags: lets the passes over the vocabulary vectorise. The
# values stay the same to the bit.
target_compile_options(hearth_sampling PRIVATE -fno-trapping-math)
