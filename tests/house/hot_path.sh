#!/bin/sh
# hot_path.sh BINARY: the short way of Engine::check calls nothing, whatever the compiler thought
# best. One function it did not inline makes it keep all it knows in memory: a tenth slower.
set -eu
code=$(objdump -d -C --no-show-raw-insn "$1" |
  awk '/^[0-9a-f]+ <weir::limiter::Engine::check\(/ { on = 1 } on { print } on && /^$/ { exit }')
[ -n "$code" ] || { echo "no Engine::check in $1"; exit 1; }
# What leaves the short way, and what cleans up when that throws.
allowed='Engine::check_(apart|found)\(|~(LeafPin|unique_ptr)\(|_Unwind_Resume'
calls=$(echo "$code" | grep -E '[[:space:]](bl|blr|call)[[:space:]]' | grep -vE "$allowed" || true)
[ -z "$calls" ] || { echo "Engine::check calls what should be inlined:"; echo "$calls"; exit 1; }
