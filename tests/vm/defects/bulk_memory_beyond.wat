;; A fill that does not fit writes nothing at all.
;; trap: out of bounds memory access
;; output: "a"
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (func (export "compute") (param i32)
    (i32.store8 (i32.const 65535) (i32.const 97))
    (call $output (i32.load8_u (i32.const 65535)))
    (memory.fill (i32.const 65535) (i32.const 98) (i32.const -1))))
