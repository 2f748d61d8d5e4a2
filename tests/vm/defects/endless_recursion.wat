;; Recursion without end meets the stack limit.
;; output: "A"
;; trap: call stack exhausted
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (func $f (param i32) (result i32) (i32.add (i32.const 1) (call $f (i32.add (local.get 0) (i32.const 1)))))
  (func (export "compute") (param i32)
    (call $output (i32.const 65))
    (call $output (call $f (i32.const 0)))))
