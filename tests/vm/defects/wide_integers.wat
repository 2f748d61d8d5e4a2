;; 64-bit arithmetic in all its kinds.
;; output: "\u00ce4\b\u00dd\u00ad\u0098\u001c0\u00c2\u00a6\u008c\u00f8\u00ff\u00ff\u00ff\u00ff\u0097e\u00d1\u00fd\u00fd\u00ff\u00ff\u00ff&\u00fe\u00dfg\u00db}\u00dd\u00cfBp\u00e1\u00bd\u00ef\u00dd\u00ee\u00ff\u00ff\u00ff\u00ff\u00ff\u001e'\u0001\u0001"
(module
  (import "env" "output_byte" (func $output (param i32)))
  (memory (export "memory") 1)
  (global (export "__heap_base") i32 (i32.const 1024))
  (global $a (mut i64) (i64.const -1234567890123456789))
  (global $b (mut i64) (i64.const 9876543210))
  (func $print (param i64)
    (loop $next
      (call $output (i32.wrap_i64 (local.get 0)))
      (br_if $next (i64.ne (local.tee 0 (i64.shr_u (local.get 0) (i64.const 8))) (i64.const 0)))))
  (func (export "compute") (param i32)
    (call $print (i64.mul (global.get $a) (global.get $b)))
    (call $print (i64.div_s (global.get $a) (global.get $b)))
    (call $print (i64.rem_s (global.get $a) (global.get $b)))
    (call $print (i64.div_u (global.get $a) (global.get $b)))
    (call $print (i64.rotl (global.get $a) (i64.const 77)))
    (call $print (i64.shr_s (global.get $a) (i64.const 40)))
    (call $print (i64.clz (global.get $b)))
    (call $print (i64.popcnt (global.get $a)))
    (call $print (i64.extend_i32_s (i32.lt_s (i32.wrap_i64 (global.get $a)) (i32.wrap_i64 (global.get $b)))))
    (call $print (i64.extend_i32_u (i64.lt_s (global.get $a) (global.get $b))))))
