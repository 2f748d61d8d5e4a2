;; A store that does not fit stops the program; it is not accepted silently.
;; output: "A"
;; trap: out of bounds memory access
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (func (export "compute") (param i32)
    (i32.store16 (i32.const 65534) (i32.const 65))
    (call $output (i32.load8_u (i32.const 65534)))
    (i32.store16 (i32.const 65535) (i32.const 66))
    (call $output (i32.const 67))))
