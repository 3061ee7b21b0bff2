#!/bin/sh
# hot_path.sh BINARY: the short way of Engine::check calls nothing, whatever the compiler thought
# best. One function it did not inline makes it keep all it knows in memory: a tenth slower.
set -eu
# Without the part that the compiler put aside as unlikely.
code=$(objdump -d -C --no-show-raw-insn "$1" |
  awk '/^[0-9a-f]+ </ { on = /<weir::limiter::Engine::check\(.*\)>:$/ } on')
[ -n "$code" ] || { echo "no Engine::check in $1"; exit 1; }
# What leaves the short way, what cleans up when that throws, and what checks the stack.
allowed='Engine::check(_apart|_found)?\(|~(LeafPin|unique_ptr|Error)\(|_Unwind_Resume|operator delete'
allowed="$allowed|__stack_chk_fail"
calls=$(echo "$code" |
  grep -E '[[:space:]]((bl|b|callq?|jmpq?)[[:space:]].*<|blr[[:space:]]|callq?[[:space:]]+[*])' |
  grep -vE "$allowed" || true)
[ -z "$calls" ] || { echo "Engine::check calls what should be inlined:"; echo "$calls"; exit 1; }
