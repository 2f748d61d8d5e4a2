;; Two hundred frames deep, every frame keeps its own locals.
;; output: "\u0001"
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (func $sum (param $n i32) (result i32) (local $a i32) (local $b i32)
    (local.set $a (i32.mul (local.get $n) (i32.const 3)))
    (local.set $b (i32.sub (local.get $a) (local.get $n)))
    (if (result i32) (local.get $n)
      (then (i32.add (call $sum (i32.sub (local.get $n) (i32.const 1)))
                     (i32.sub (local.get $a) (local.get $b))))
      (else (i32.const 0))))
  (func (export "compute") (param i32)
    (call $output (i32.eq (call $sum (i32.const 200)) (i32.const 20100)))))
