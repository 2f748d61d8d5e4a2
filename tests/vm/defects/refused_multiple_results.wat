;; A function with two results. Refused when the program is built, with the thing's name.
;; refused: multi-value
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (func $two (result i32 i32) (i32.const 1) (i32.const 2))
  (func (export "compute") (param i32) (call $two) (drop) (drop)))
