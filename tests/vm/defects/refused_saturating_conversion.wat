;; Conversions of floats. Refused when the program is built, with the thing's name.
;; refused: f32
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (func (export "compute") (param i32) (call $output (i32.trunc_sat_f32_s (f32.const 1)))))
