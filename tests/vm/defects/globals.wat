;; Globals keep their values across calls, each its own.
;; output: "AaBaCb!D"
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (global $a (mut i32) (i32.const 65))
  (global $b (mut i32) (i32.const 97))
  (global $c i32 (i32.const 33))
  (global $wide (mut i64) (i64.const 0x4200000000))
  (func $next
    (global.set $a (i32.add (global.get $a) (i32.const 1)))
    (global.set $wide (i64.add (global.get $wide) (i64.const 0x100000000))))
  (func (export "compute") (param i32)
    (call $output (global.get $a))
    (call $output (global.get $b))
    call $next
    (call $output (global.get $a))
    (call $output (global.get $b))
    (global.set $b (i32.const 98))
    call $next
    (call $output (global.get $a))
    (call $output (global.get $b))
    (call $output (global.get $c))
    (call $output (i32.wrap_i64 (i64.shr_u (global.get $wide) (i64.const 32))))))
