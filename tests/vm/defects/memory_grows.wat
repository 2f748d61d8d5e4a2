;; memory.grow gives the old size, fresh zeros, and -1 beyond the maximum.
;; output: "11307134"
;; trap: out of bounds memory access
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1 4)
  (global (export "__heap_base") i32 (i32.const 1024))
  (func $digit (param i32) (call $output (i32.add (local.get 0) (i32.const 48))))
  (func (export "compute") (param i32)
    (call $digit (memory.size))
    (call $digit (memory.grow (i32.const 2)))
    (call $digit (memory.size))
    (call $digit (i32.load8_u (i32.const 196607)))
    (i32.store8 (i32.const 196607) (i32.const 7))
    (call $digit (i32.load8_u (i32.const 196607)))
    (call $digit (i32.eq (memory.grow (i32.const 2)) (i32.const -1)))
    (call $digit (memory.grow (i32.const 1)))
    (call $digit (memory.grow (i32.const 0)))
    (drop (i32.load (i32.const 262141)))))
