;; A local never written reads 0, not the nearest local that was.
;; output: "0709"
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (func $f (local i32 i32 i32 i32)
    (local.set 1 (i32.const 7))
    (local.set 3 (i32.const 9))
    (call $output (i32.add (local.get 0) (i32.const 48)))
    (call $output (i32.add (local.get 1) (i32.const 48)))
    (call $output (i32.add (local.get 2) (i32.const 48)))
    (call $output (i32.add (local.get 3) (i32.const 48))))
  (func (export "compute") (param i32)
    call $f))
