;; Vectors. Refused when the program is built, with the thing's name.
;; refused: SIMD
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (func (export "compute") (param i32) (call $output (i8x16.extract_lane_u 3 (v128.const i32x4 1 2 3 4)))))
