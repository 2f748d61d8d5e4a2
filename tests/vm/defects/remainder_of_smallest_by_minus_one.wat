;; INT_MIN % -1 is 0, not an overflow.
;; output: "\u0000\u0000"
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (func (export "compute") (param i32)
    (call $output (i32.rem_s (i32.const 0x80000000) (i32.sub (i32.load (i32.const 64)) (i32.const 1))))
    (call $output (i32.wrap_i64 (i64.rem_s (i64.const 0x8000000000000000) (i64.const -1))))))
