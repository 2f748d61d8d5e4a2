;; Calls through a table, by index and by signature.
;; output: "\u0012Q!"
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (type $unary (func (param i32) (result i32)))
  (type $none (func))
  (table 4 funcref)
  (elem (i32.const 1) $double $square $hello)
  (func $double (param i32) (result i32) (i32.shl (local.get 0) (i32.const 1)))
  (func $square (param i32) (result i32) (i32.mul (local.get 0) (local.get 0)))
  (func $hello (call $output (i32.const 33)))
  (func (export "compute") (param i32) (local $i i32)
    (local.set $i (i32.const 1))
    (loop $next
      (call $output (call_indirect (type $unary) (i32.const 9) (local.get $i)))
      (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 3))))
    (call_indirect (type $none) (i32.const 3))))
