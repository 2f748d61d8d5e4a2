;; The last bytes of the largest memory the machine takes: squares of addresses must still tell neighbours apart.
;; output: "NKHEBOLI0"
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1024)
  (global (export "__heap_base") i32 (i32.const 1024))
  (func (export "compute") (param i32) (local $at i32)
    (local.set $at (i32.const 67108800))
    (loop $write
      (i32.store8 (local.get $at) (i32.add (i32.and (local.get $at) (i32.const 15)) (i32.const 65)))
      (br_if $write (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 1))) (i32.const 67108864))))
    (local.set $at (i32.const 67108864))
    (loop $read
      (local.set $at (i32.sub (local.get $at) (i32.const 3)))
      (call $output (i32.load8_u (local.get $at)))
      (br_if $read (i32.gt_u (local.get $at) (i32.const 67108840))))
    (call $output (i32.add (i32.load8_u (i32.const 67108799)) (i32.const 48)))))
