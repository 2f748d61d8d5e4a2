;; Output takes its operand from the stack; if it does not, this prints BB.
;; output: "BA"
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (func (export "compute") (param i32)
    i32.const 65
    i32.const 66
    call $output
    call $output))
