;; An empty input is written too: its final 0 takes the place of what the program's data had there.
;; output: "\u0000YX"
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 1023) "XXY")
  (global (export "__heap_base") i32 (i32.const 1024))
  (func (export "compute") (param i32)
    (call $output (i32.load8_u (local.get 0)))
    (call $output (i32.load8_u offset=1 (local.get 0)))
    (call $output (i32.load8_u (i32.sub (local.get 0) (i32.const 1))))))
