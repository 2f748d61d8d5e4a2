;; A local of a type the machine lacks. Refused when the program is built, with the thing's name.
;; refused: f64
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (func (export "compute") (param i32) (local f64) (call $output (i32.const 65))))
