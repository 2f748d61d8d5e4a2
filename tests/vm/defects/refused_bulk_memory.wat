;; Bulk memory operations. Refused when the program is built, with the thing's name.
;; refused: memory.copy
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (func (export "compute") (param i32) (memory.copy (i32.const 0) (i32.const 8) (i32.const 4))))
