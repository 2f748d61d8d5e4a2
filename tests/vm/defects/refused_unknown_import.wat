;; A host function that is not there. Refused when the program is built, with the thing's name.
;; refused: env.puts
(module
  (import "env" "output_byte" (func $output (param i32)))
  (import "env" "puts" (func $puts (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (func (export "compute") (param i32) (call $puts (local.get 0))))
