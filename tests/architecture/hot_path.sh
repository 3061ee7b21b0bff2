#!/bin/sh
# hot_path.sh BINARY: checks in the machine code that the fast path of Engine::check calls nothing. One
# function that the compiler did not inline makes it spill its registers, which costs a tenth.
set -eu
# Without the part that the compiler moved away as unlikely.
code=$(objdump -d -C --no-show-raw-insn "$1" |
  awk '/^[0-9a-f]+ </ { on = /<weir::decide::Engine::check\(.*\)>:$/ } on')
[ -n "$code" ] || { echo "no Engine::check in $1"; exit 1; }
# Allowed: calls that leave the fast path, clean up after an exception, or check the stack.
allowed='Engine::check(_slow|_found)?\(|~(FastGuard|unique_ptr|Error)\(|_Unwind_Resume|operator delete'
allowed="$allowed|__stack_chk_fail"
calls=$(echo "$code" |
  grep -E '[[:space:]]((bl|b|callq?|jmpq?)[[:space:]].*<|blr[[:space:]]|callq?[[:space:]]+[*])' |
  grep -vE "$allowed" || true)
[ -z "$calls" ] || { echo "Engine::check calls functions that should be inlined:"; echo "$calls"; exit 1; }
