;; Locals are zero at every call, not what the last call left there (AF).
;; output: "AA"
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (func $f (local i32)
    (call $output (i32.add (local.get 0) (i32.const 65)))
    (local.set 0 (i32.const 5)))
  (func (export "compute") (param i32)
    call $f
    call $f))
