;; The same at every depth, and in a frame that a returned call has used before.
;; output: "AAA\u0010A\u0010\u0010AA\u0010A\u0010\u0010\u0010"
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (func $f (param $depth i32) (local $wide i64) (local $narrow i32)
    (call $output (i32.add (i32.wrap_i64 (local.get $wide)) (i32.add (local.get $narrow) (i32.const 65))))
    (local.set $wide (i64.const 7))
    (local.set $narrow (i32.const 9))
    (if (local.get $depth) (then
      (call $f (i32.sub (local.get $depth) (i32.const 1)))
      (call $f (i32.sub (local.get $depth) (i32.const 1)))))
    (call $output (i32.add (i32.wrap_i64 (local.get $wide)) (local.get $narrow))))
  (func (export "compute") (param i32)
    (call $f (i32.const 2))))
