;; An indirect call that cannot be made: null.
;; output: "A"
;; trap: uninitialized table element
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (type $none (func))
  (table 4 funcref)
  (elem (i32.const 1) $double)
  (func $double (param i32) (result i32) (i32.shl (local.get 0) (i32.const 1)))
  (func (export "compute") (param i32)
    (call $output (i32.const 65))
    (call_indirect (type $none) (i32.const 0))
    (call $output (i32.const 66))))
