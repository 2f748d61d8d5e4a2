;; Stops there with the reason, and what was printed before stays printed.
;; output: "A"
;; trap: unreachable executed
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (func (export "compute") (param i32)
    (call $output (i32.const 65))
    (call $output (unreachable))
    (call $output (i32.const 66))))
