;; A branch drops the operands that lie between its value and its block's floor.
;; output: "BA!"
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (func (export "compute") (param i32)
    (i32.const 65)
    (block $done (result i32)
      (i32.const 1)
      (i32.const 2)
      (i32.const 3)
      (br_if $done (i32.const 66) (i32.const 1))
      (drop) (drop) (drop) (drop)
      (i32.const 67))
    (call $output)
    (call $output)
    (block $loop_done
      (loop $again
        (i32.const 9)
        (i32.const 8)
        (local.get 0)
        (local.set 0 (i32.const 0))
        (br_if $again)
        (drop) (drop)))
    (i32.const 33)
    (call $output)))
