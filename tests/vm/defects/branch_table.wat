;; A jump table, its default, and an index that is negative.
;; output: "0121???"
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (func $name (param i32)
    (block $other (block $two (block $one (block $zero
      (br_table $zero $one $two $one $other (local.get 0)))
      (call $output (i32.const 48)) (return))
      (call $output (i32.const 49)) (return))
      (call $output (i32.const 50)) (return))
    (call $output (i32.const 63)))
  (func (export "compute") (param i32)
    (call $name (i32.const 0))
    (call $name (i32.const 1))
    (call $name (i32.const 2))
    (call $name (i32.const 3))
    (call $name (i32.const 4))
    (call $name (i32.const 5))
    (call $name (i32.const -1))))
