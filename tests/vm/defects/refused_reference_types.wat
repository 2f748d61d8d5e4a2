;; References as values. Refused when the program is built, with the thing's name.
;; refused: table.size
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (table 2 funcref)
  (func (export "compute") (param i32) (drop (table.size 0))))
