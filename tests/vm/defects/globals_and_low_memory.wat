;; Memory at the addresses 0 to 31 is the program's own: no globals, no scratch space there.
;; output: "55\u0001\u0001"
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (global $g (mut i32) (i32.const 5))
  (func (export "compute") (param i32)
    (i32.store (i32.const 0) (i32.const -1))
    (i32.store (i32.const 4) (i32.const -1))
    (i32.store (i32.const 8) (i32.const -1))
    (i32.store (i32.const 12) (i32.const -1))
    (i32.store (i32.const 16) (i32.const -1))
    (call $output (i32.add (global.get $g) (i32.const 48)))
    (global.set $g (i32.mul (global.get $g) (i32.shr_s (i32.load (i32.const 4)) (i32.const 3))))
    (call $output (i32.sub (i32.const 48) (global.get $g)))
    (call $output (i32.eq (i32.const -1) (i32.and (i32.load (i32.const 0)) (i32.load (i32.const 8)))))
    (call $output (i32.eq (i32.const -1) (i32.and (i32.load (i32.const 12)) (i32.load (i32.const 16)))))))
