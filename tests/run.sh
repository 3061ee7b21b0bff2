# ./dev test: which parts there are, what each needs, and how they share the cores. Read by ./dev.
#
# Every part runs in a process of its own as soon as those it needs have ended. Parts that compile
# run at the lowest priority, so that tests which wait for servers leave the cores to the compiler and
# take them back when they need them. A part's output is in build/parts/NAME.log.

parts_folder=build/parts
again=            # set: run also what passed as it is
seeds=            # of worlds in the optimized build; empty: the simulator's own number
sanitized_seeds=8

# The modules of --only, and what their tests are about.
modules='
base        hash tables, hashes and integers that the language lacks
platform    clocks and threads
epoch       safe memory reclamation
algorithms  the arithmetic of all six algorithms
memory      the table of tuples, its cells and its sketch
regional    refresh from the origin, replay to it, and the policies for its loss
global      the publish rule, publishing to the ledger and importing from it
decide      validation, decisions and batches; stress tests with threads
origins     the regional origin: in process, and a real redis-server
ledgers     the global ledger: in memory, SQLite, and a real mariadbd
rules       keys
frontends   HTTP and the Redis protocol
server      settings and the data folder
demo        weir demo, also on a terminal
lab         weir lab: shapes, traces, comparison, advice
programs    the command lines as a person meets them
sim         simulated worlds and fleets, scenario files, reports
mutation    planted bugs: a checker must find each
threads     the engine under many schedules of its threads, each decided by a seed
scenarios   every small scenario, run to its end; all but the longest twice
architecture which module may include which; the machine code of the fast path
instructions the instructions of each front end and fast decision, against kept figures
examples    the programs in examples/
bench       every benchmark, for an instant
embed       the library as an embedder installs and links it
clients     the server, used by published clients; real Redis, MariaDB, faults
fuzz        made-up input for every parser
'

# Those whose tests are built for the sanitizers, too; TSan leaves out what has one thread.
asan_modules='base platform epoch algorithms memory regional global decide origins ledgers rules frontends sim lab'
tsan_modules='platform epoch memory regional global decide origins ledgers frontends'

list_modules() {
  echo 'Modules, for ./dev test --only MODULE:'
  sed '/^$/d;s/^/  /' <<<"$modules"
  echo "With --under asan: $asan_modules"
  echo "With --under tsan: $tsan_modules"
}

# What has to be built for the tests of a module.
targets_of() {
  case $1 in
    clients) echo "${programs[@]}" ;;
    embed) echo weir ;;
    *) echo "tests_of_$1" ;;
  esac
}

# test_module MODULE [asan|tsan]
test_module() {
  local module=$1 under=${2:-} dir=build
  grep -q "^$module " <<<"$modules" || die "no module '$module'; ./dev test --list shows them"
  local built=$modules
  case $under in
    "") ;;
    asan) built=$asan_modules ;;
    tsan) built=$tsan_modules ;;
    *) die "--under knows asan and tsan, not '$under'" ;;
  esac
  grep -qw "$module" <<<"$built" || die "no test of $module is built for $under, but those of $built"
  install "${packages[@]}" "${test_packages[@]}"
  case $module in
    clients) install_clients ;;
    origins | ledgers) install "${server_packages[@]}" ;;
    bench) install_clients ;;
    instructions) install valgrind; command -v node >/dev/null || install nodejs ;;
    fuzz) fuzz_all 10; report; return ;;
  esac
  say "building the tests of $module"
  case $under in
    "") build $(targets_of "$module") ;;
    asan) dir=build/asan; build_asan $(targets_of "$module") ;;
    tsan) dir=build/tsan; build_tsan $(targets_of "$module") ;;
  esac
  mkdir -p $parts_folder
  [ -z "$under" ] || export WEIR_SIM_SEEDS=${WEIR_SIM_SEEDS:-$sanitized_seeds}
  run_ctest module "$dir" -j "$(jobs)" -L "^$module(/|\$)" | tee $parts_folder/module.log ||
    die "a test could not be started"
  add_report $parts_folder/module.xml
  print_failures module
  report
}

# run_ctest PART DIR CTEST-ARGS...: leaves a report for add_report; fails if there is none, or if a
# test could not be started, which the report calls skipped.
# Generated cases are cheap in the optimized build and expensive under sanitizers. Whole stacks of
# every allocation would take a fifth of the time; who needs them runs the failed test alone.
run_ctest() {
  local part=$1 dir=$2 cases=${cases:-300}
  local result=$PWD/$parts_folder/$part.xml
  shift 2
  [ "$dir" = build ] || cases=$((cases / 10))
  rm -f "$result"
  RC_PARAMS=${RC_PARAMS:-max_success=$cases} ASAN_OPTIONS=${ASAN_OPTIONS:-malloc_context_size=1} \
    ctest --test-dir "$dir" --output-on-failure --output-junit "$result" "$@" ||
    [ "$(attribute_of failures "$result")" -gt 0 ]
}

# tests_exist DIR NAME CTEST-ARGS...: fails if ctest selects no test of a binary, because its label is another one.
tests_exist() {
  local dir=$1 name=$2
  shift 2
  ! ctest --test-dir "$dir" -N "$@" -L "/$name(/|\$)" | grep -qx 'Total Tests: 0' ||
    { echo "ctest selects no test of $dir/tests/$name; remove it if it was built from other sources" >&2; return 1; }
}

# What test binaries read besides themselves, but for those that read everything.
inputs=(docs/metrics.md docs/scenarios.md scenarios tests/instructions)
reads_everything='architecture_test|command_line_test|demo_test'

# key_of FILES...: the same if the files are, and the servers, and what sets the number of cases.
key_of() {
  { find "$@" -name node_modules -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
    sha256sum <tests/run.sh
    dpkg-query -W redis-server mariadb-server nodejs libmariadb3 libssl3 2>/dev/null || true
    echo "${cases:-} ${fuzz_seconds:-} ${RC_PARAMS:-} ${WEIR_SIM_SEEDS:-} ${WEIR_SCHEDULES:-}"; } | sha256sum | cut -c 1-64
}

# has_passed NAME KEY: whether these tests passed when all they depend on was the same.
has_passed() { [ -z "$again" ] && [ "$(cat "build/passed/$1" 2>/dev/null)" = "$2" ]; }
note_passed() { mkdir -p "build/passed/$(dirname "$1")" && echo "$2" >"build/passed/$1"; }

# leave_out NAME: says so, for the summary.
leave_out() { echo "$1" >>"$parts_folder/unchanged"; }

# unless_passed PART 'FILES' COMMAND...: one part whose tests depend on these files.
unless_passed() {
  local part=$1 key
  key=$(key_of $2)
  if has_passed "$part" "$key"; then leave_out "$part"; return; fi
  rm -f "build/passed/$part"
  "${@:3}" || return
  if [ "$(attribute_of failures "$parts_folder/$part.xml")" = 0 ]; then note_passed "$part" "$key"; fi
}

# test_binaries PART DIR CTEST-ARGS...: the tests of a tree that ctest's arguments choose, but those of
# binaries that passed as they are. architecture_test never does, so there is always something in build/.
test_binaries() {
  local part=$1 dir=$2 binary name key passed_now=() left_out=none
  shift 2
  for binary in "$dir"/tests/*_test ${full:+"$dir"/tests/unit/*_test}; do
    [ -e "$binary" ] || continue
    name=$(basename "$binary")
    key=$(key_of "$binary" "${inputs[@]}")
    if [[ ! $name =~ ^($reads_everything)$ ]] && has_passed "$part/$name" "$key"; then
      leave_out "$part/$name"
      left_out+="|$name"
    else
      rm -f "build/passed/$part/$name"
      passed_now+=("$part/$name" "$key")
    fi
  done
  [ ${#passed_now[@]} -gt 0 ] || return 0
  for name in "${passed_now[@]}"; do
    [[ $name != */* ]] || tests_exist "$dir" "${name#*/}" "$@" || return
  done
  run_ctest "$part" "$dir" -j 3 "$@" -LE "/($left_out)(/|\$)" || return
  [ "$(attribute_of failures "$parts_folder/$part.xml")" = 0 ] || return 0
  set -- "${passed_now[@]}"
  while [ $# -gt 0 ]; do note_passed "$1" "$2"; shift 2; done
}

# The fuzzers that did not run as they are; 3 s for those that ran in another form, since they begin
# with the inputs that they found then. The names stay in fuzz.targets.
fuzz_changed() {
  local target new=() known=()
  declare -A keys
  for target in $(ls fuzz/corpora); do
    keys[$target]=$(key_of "build/asan/bin/$target" "fuzz/corpora/$target")
    if has_passed "fuzz/$target" "${keys[$target]}"; then
      leave_out "fuzz/$target"
      continue
    fi
    if [ -z "$again$full" ] && [ -e "build/passed/fuzz/$target" ]; then known+=("$target"); else new+=("$target"); fi
    rm -f "build/passed/fuzz/$target"
  done
  echo "${new[@]}" "${known[@]}" >$parts_folder/fuzz.targets
  [ ${#new[@]} = 0 ] || fuzz_built "$fuzz_seconds" "${new[@]}"
  [ ${#known[@]} = 0 ] || fuzz_built 3 "${known[@]}"
  for target in "${new[@]}" "${known[@]}"; do
    if [ -e "build/asan/$target.fine" ]; then note_passed "fuzz/$target" "${keys[$target]}"; fi
  done
}

# attribute_of NAME REPORT: a number from the head of a JUnit report.
attribute_of() { sed -n "s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$2" | head -n 1; }

# add_report REPORT: adds up what ctest found.
add_report() {
  local total bad left_out
  # Where nothing had to be run there is none.
  if [ ! -e "$1" ] && grep -qs "^$(basename "$1" .xml)" $parts_folder/unchanged; then return; fi
  [ -s "$1" ] || die "ctest wrote no $1"
  total=$(attribute_of tests "$1")
  bad=$(attribute_of failures "$1")
  left_out=$(($(attribute_of skipped "$1") + $(attribute_of disabled "$1")))
  [ "${total:-0}" -gt 0 ] || die "no test was found for $1"
  passed=$((passed + total - bad - left_out))
  failed=$((failed + bad))
  skipped=$((skipped + left_out))
}

# part NAME SECONDS 'NEEDED PARTS' COMMAND...: runs the command when the needed parts have ended
# well. SECONDS is what it took on two cores, until this machine knows better.
part() {
  local name=$1 seconds=$2 needed=$3
  shift 3
  part_names+=("$name")
  expected[$name]=$(sed -n "s/^$name //p" build/part-seconds 2>/dev/null || true)
  [ -n "${expected[$name]}" ] || expected[$name]=$seconds
  set -m  # a process group for each part, so that all of it can be ended
  (
    set +m
    for other in $needed; do
      until [ -e "$parts_folder/$other.status" ]; do sleep 0.3; done
      [ "$(<"$parts_folder/$other.status")" = 0 ] || { echo left out >"$parts_folder/$name.status"; exit; }
    done
    date +%s >"$parts_folder/$name.began.new"
    mv "$parts_folder/$name.began.new" "$parts_folder/$name.began"
    set +e  # not `|| ...`, which would let the command go on after an error
    TIMEFORMAT='%U %S'
    # Braces: Bash times a subshell inside of it, where the output is redirected.
    { time { (set -e; "$@") >"$parts_folder/$name.log" 2>&1; }; } 2>"$parts_folder/$name.cpu"
    echo $? >"$parts_folder/$name.result"
    date +%s >"$parts_folder/$name.ended"
    mv "$parts_folder/$name.result" "$parts_folder/$name.status"
  ) </dev/null 9>&- &
  set +m
  part_pids+=($!)
}

# Installing is waited for: apt-get that is ended half-way leaves a machine to repair.
end_all_parts() {
  local i
  [ -z "$sampler" ] || kill -- "-$sampler" 2>/dev/null || true
  for i in "${!part_names[@]}"; do
    [[ ${part_names[i]} != install* ]] || [ ! -e "$parts_folder/${part_names[i]}.began" ] || continue
    kill -- "-${part_pids[i]}" 2>/dev/null || true
  done
  for i in "${!part_names[@]}"; do
    [[ ${part_names[i]} != install* ]] || wait "${part_pids[i]}" 2>/dev/null || true
  done
}

# Compiles at the lowest priority.
compile() { renice -n 19 $BASHPID >/dev/null && "$@"; }

clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# One line for each part that begins or ends; on a terminal also one that says what runs now.
watch_parts() {
  local began=$1 left name now line terminal= printed=
  [ -t 2 ] && terminal=1
  while :; do
    now=$(date +%s) left=0 line=
    for name in "${part_names[@]}"; do
      if [ -e "$parts_folder/$name.status" ]; then
        [[ $printed == *" $name-ended "* ]] && continue
        printed+=" $name-ended "
        end_part "$name" $((now - began)) || left=-1000
        continue
      fi
      left=$((left + 1))
      [ -e "$parts_folder/$name.began" ] || continue
      if [[ $printed != *" $name-began "* ]]; then
        printed+=" $name-began "
        say "[$(clock $((now - began)))] $name begins, about $(clock "${expected[$name]}")"
      fi
      line+=" $name $(clock $((now - $(<"$parts_folder/$name.began"))))/$(clock "${expected[$name]}")"
    done
    [ $left -gt 0 ] || break
    [ -z "$terminal" ] || printf '\r\033[K%s %s\r' "$(clock $((now - began)))" "$line" >&2
    sleep 1
  done
  [ $left = 0 ]
}

# Tells how a part ended. Fails where nothing more can be done: something did not build.
end_part() {
  local name=$1 status log=$parts_folder/$1.log result=$parts_folder/$1.xml
  status=$(<"$parts_folder/$name.status")
  if [ "$status" != 0 ]; then
    say "[$(clock "$2")] $name FAILED ($status)"
    [ ! -e "$log" ] || tail -n 60 "$log" >&2
    return 1
  fi
  if [ -e "$result" ] && [ "$(attribute_of failures "$result")" -gt 0 ]; then
    say "[$(clock "$2")] $name FAILED, $(clock "$(seconds_of "$name")"); its whole output is $log"
    grep -vE '^ *[0-9]+/[0-9]+ Test.*(Passed|Skipped)|^ *Start +[0-9]+:' "$log" | tail -n 150 >&2
    return
  fi
  local how='is done'
  ! grep -qs '^dev: .* failed;' "$log" || how=FAILED
  say "[$(clock "$2")] $name $how, $(clock "$(seconds_of "$name")")"
  [ "$name" != fuzz ] || cat "$log" >&2
}

seconds_of() { echo $(($(<"$parts_folder/$1.ended") - $(<"$parts_folder/$1.began"))); }

# cpu_of PARTS...: seconds of CPU of the parts, with all their processes.
cpu_of() { (cd "$parts_folder" && awk '{ sum += $1 + $2 } END { printf "%.0f\n", sum }' "${@/%/.cpu}"); }

# failed_cases: reads the output of ctest, and prints each failed test, and the cases that failed in it.
# A test that ends without a list of its cases crashed or took too long: the case that ran is named.
failed_cases() {
  awk '
    function end_test() {
      if (test == "") return
      if (cases == "" && running != "") cases = "    " running " (did not end)\n"
      printf "  %s\n%s", test, cases
      test = ""
    }
    function add(name) {
      if (name in seen) return
      seen[name] = 1
      cases = cases "    " name "\n"
    }
    /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
      end_test()
      cases = running = ""
      split("", seen)
      if ($0 !~ /\*\*\*/) next
      test = $0
      sub(/^[^:]*: /, "", test)
      sub(/ \.\..*/, "", test)
      next
    }
    /^The following tests FAILED:/ { end_test() }
    test == "" { next }
    /^\[ RUN      \] / { running = substr($0, 14) }
    /^\[       OK \] / { running = "" }
    /^\[  FAILED  \] [^ ,]*\.[^ ,]/ {
      name = substr($0, 14)
      sub(/[ ,].*/, "", name)
      add(name)
      running = ""
    }
    /^ *not ok [0-9]+ - / { name = $0; sub(/^ *not ok [0-9]+ - /, "", name); add(name) }
    /^ *✖ / && !/^ *✖ failing tests:/ { name = $0; sub(/^ *✖ /, "", name); sub(/ \([0-9.]+ms\)$/, "", name); add(name) }
    END { end_test() }'
}

# print_failures PARTS...: the last lines of a long log name the failed cases, too.
print_failures() {
  local part
  for part in "$@"; do
    [ -e "$parts_folder/$part.xml" ] || continue  # nothing had to be run
    [ "$(attribute_of failures "$parts_folder/$part.xml")" -gt 0 ] || continue
    echo
    echo "failed in $part, whose output is $parts_folder/$part.log:"
    failed_cases <"$parts_folder/$part.log"
  done
}

print_slowest() {
  echo
  echo 'the ten slowest tests:'
  local xml
  for xml in "$parts_folder"/*.xml; do
    sed -n 's/.*<testcase name="\([^"]*\)".* time="\([0-9.]*\)".*/\2 \1/p' "$xml" |
      sed "s/ *# GetParam.*//; s/\$/ ($(basename "$xml" .xml))/"
  done | sort -rn | sed -n '1,10p' | while read -r seconds name; do printf '  %6.1f s  %s\n' "$seconds" "$name"; done
}

# And keeps the times of the parts for the next run.
print_parts() {
  local name
  echo
  echo 'minutes of each part, of the clock and of CPU; parts run beside each other:'
  for name in "${part_names[@]}"; do
    printf '  %5s %5s  %s\n' "$(clock "$(seconds_of "$name")")" "$(clock "$(cpu_of "$name")")" "$name"
  done
  printf '  %5s %5s  in all; the bar is 15:00 and 27:00 from a bare machine with two cores (docs/testing.md)\n' \
    "$(clock "$1")" "$(clock "$(cpu_of "${part_names[@]}")")"
  for name in "${part_names[@]}"; do echo "$name $(seconds_of "$name")"; done >build/part-seconds
}

# cell_of ROW: a figure from the table of CPU time in docs/testing.md, in seconds.
cell_of() { sed -n "s/^| $1 | \([0-9]*\):\([0-9.]*\) .*/\1 \2/p" docs/testing.md | awk '{ print $1 * 60 + $2 }'; }

# The CPU time of a compilation that does not change with this repository. It relates the processor of this
# machine, and how busy it is, to those of the table.
reference_compilation() {
  TIMEFORMAT='%U %S'
  time CCACHE_DISABLE=1 g++ -std=c++20 -O1 -x c++ -S -o /dev/null - <<<'#include <map>
#include <string>
int add(const char* text) { std::map<std::string, int> all; return ++all[text]; }'
}

# sample_reference: repeats it twice a minute while the parts run. Processors that share a core, or are shared with
# other machines, count more time for the same work when all are in use.
sample_reference() {
  until [ -e $parts_folder/install.status ]; do sleep 1; done
  while sleep 30; do reference_compilation 2>>$parts_folder/reference; done
}

# reference_seconds: the mean.
reference_seconds() { awk '{ sum += $1 + $2 } END { printf "%.2f\n", sum / NR }' $parts_folder/reference; }

# check_cpu_time: fails if the parts took 15 % more CPU than docs/testing.md says, on its processor.
check_cpu_time() {
  local reference factor name allowed
  [ -s $parts_folder/reference ] || return 0  # it took less than half a minute
  reference=$(reference_seconds)
  echo
  echo "the reference compilation took $reference s of CPU beside the parts"
  factor=$(awk "BEGIN { print 1.15 * $reference / $(cell_of 'reference compilation') }")
  more_than() { awk "BEGIN { exit !($1 > $factor * $2) }"; }
  more_than "$(cpu_of "${part_names[@]}")" "$(cell_of 'all parts')" || return 0
  failed=$((failed + 1))
  echo
  echo "the parts took more CPU time than docs/testing.md allows; on this processor (reference compilation: $reference s):"
  for name in "${part_names[@]}"; do
    allowed=$(cell_of "$name")
    ! more_than "$(cpu_of "$name")" "${allowed:-0}" ||
      printf '  %s: %s, at most %s\n' "$name" "$(clock "$(cpu_of "$name")")" \
        "$(clock "$(awk "BEGIN { printf \"%.0f\", $factor * ${allowed:-0} }")")"
  done
  echo 'Make the part cheaper. If the time is worth it, change the table, and say why in the commit.'
}

test_everything() {
  local began name
  fuzz_seconds=10
  began=$(date +%s)
  declare -gA expected=()
  part_names=() part_pids=() sampler=
  if [ -n "$full" ]; then
    cases=2000 fuzz_seconds=120 seeds=2000 sanitized_seeds=200
  fi
  mkdir -p build
  exec 9>build/lock
  flock -n 9 || die "another ./dev test runs in this folder"
  rm -rf $parts_folder
  mkdir -p $parts_folder
  trap end_all_parts EXIT
  trap 'exit 130' INT TERM

  # Release: the programs first, since most tests of the clients only wait.
  part install 75 '' install "${packages[@]}" "${test_packages[@]}"
  part programs 70 install compile build "${programs[@]}"
  part install-servers 120 install install_clients
  part clients 150 'programs install-servers' \
    unless_passed clients 'build/bin README.md CONTRIBUTING.md dev docs scenarios examples bench fuzz/corpora include sim src tests' run_ctest clients build -j 4 -L '^clients$'
  part install-clang 20 install-servers install "${clang_packages[@]}"
  part asan 200 'programs install-clang' compile build_asan all
  part asan-tests 130 'asan clients' test_sanitized asan-tests build/asan
  part fuzz 50 'asan clients' fuzz_changed
  part release 150 asan compile build all ${full:+unit_tests}
  part optimized 90 'release asan-tests' test_optimized
  part tsan 120 release compile build_tsan all
  part tsan-tests 60 'tsan optimized' test_sanitized tsan-tests build/tsan
  # Not at the lowest priority, at which it would exceed the time limits of its tests on a busy machine.
  part embed 60 release \
    unless_passed embed 'CMakeLists.txt cmake include src tests/embed' run_ctest embed build -j 2 -L "^embed${full:+(-full)?}\$"
  # What a unity build hides: a file that does not include what it uses.
  [ -z "$full" ] || part each-file-alone 600 asan compile configure_and_build build/alone all \
    -DCMAKE_BUILD_TYPE=Release -DWEIR_UNITY=OFF

  set -m  # as for a part
  sample_reference </dev/null 9>&- &
  sampler=$!
  set +m
  watch_parts "$began" || die "stopped: the part above could not do its work"
  if [ -s $parts_folder/unchanged ]; then
    echo
    echo "not run again, since nothing they depend on has changed since they passed (--again runs them):"
    sort $parts_folder/unchanged | paste -sd ' ' | fold -s -w 98 | sed 's/^/  /'
  fi
  for name in clients optimized embed asan-tests tsan-tests; do add_report $parts_folder/$name.xml; done
  add_fuzz_results $(cat $parts_folder/fuzz.targets 2>/dev/null)
  print_slowest
  print_parts $(($(date +%s) - began))
  print_failures clients optimized embed asan-tests tsan-tests
  [ -n "$full" ] || check_cpu_time
  report
}

# In a full run also the unit tests.
test_optimized() {
  [ -z "$seeds" ] || export WEIR_SIM_SEEDS=${WEIR_SIM_SEEDS:-$seeds}
  [ -z "$full" ] || export WEIR_SCHEDULES=${WEIR_SCHEDULES:-20}
  if [ -n "$full" ]; then test_binaries optimized build -LE '^(clients|embed.*)$'; else test_binaries optimized build -L '(^|/)optimized$'; fi
}

# Fewer worlds where each takes ten times as long.
test_sanitized() {
  export WEIR_SIM_SEEDS=${WEIR_SIM_SEEDS:-$sanitized_seeds}
  test_binaries "$1" "$2"
}

# test [--again] [--full | --only MODULE [--under asan|tsan] | --list]
run_test_command() {
  local only= under=
  while [ $# -gt 0 ]; do
    case $1 in
      --full) full=ON; export WEIR_TEST_FULL=1 ;;
      --again) again=1 ;;
      --list) list_modules; return ;;
      --only) [ $# -gt 1 ] || die "--only asks for a module; ./dev test --list shows them"; only=$2; shift ;;
      --under) [ $# -gt 1 ] || die "--under asks for asan or tsan"; under=$2; shift ;;
      *) die "test knows --full, --again, --only, --under and --list, not '$1'" ;;
    esac
    shift
  done
  [ -z "$under" ] || [ -n "$only" ] || die "--under goes with --only: everything runs under both"
  if [ -n "$only" ]; then test_module "$only" "$under"; else test_everything; fi
}
