;; Data that is copied into the memory when the program asks for it. Refused when the program is built, by name.
;; refused: bulk memory
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (data "later")
  (func (export "compute") (param i32) (memory.init 0 (i32.const 0) (i32.const 0) (i32.const 4))))
