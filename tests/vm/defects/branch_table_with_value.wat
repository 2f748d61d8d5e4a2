;; A jump table that carries a value and leaves operands behind.
;; output: "\u0001\u0001"
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (func $pick (param i32) (result i32)
    (block $a (result i32)
      (i32.const 1000)
      (block $b (result i32)
        (i32.const 500)
        (i32.const 7)
        (local.get 0)
        (br_table $b $a))
      (i32.add)))
  (func (export "compute") (param i32)
    (call $output (i32.eq (call $pick (i32.const 0)) (i32.const 1007)))
    (call $output (i32.eq (call $pick (i32.const 1)) (i32.const 7)))))
