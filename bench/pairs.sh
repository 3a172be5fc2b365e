# shellcheck shell=bash
# What the benchmarks share: two programs do the same work in turn, A B A B, so that whatever else the machine does
# meets both; medians, spreads, and the ratio pair by pair. Figures are "bytes_per_second cpu_seconds_per_gb".

runs=${RUNS:-5}
pairs=${PAIRS:-$runs} # at most, where RUNS leave the ratio's interval wider than 5 %
seconds=${SECONDS_EACH:-3}
port=${PORT:-7431}

# One core a side: programs with more threads would otherwise be compared by how many cores they take.
near=() far=()
if [[ $(nproc) -gt 1 ]]; then near=(taskset -c 0) far=(taskset -c 1); fi

say() { echo "bench: $1" >&2; }

# need COMMAND PACKAGE: fails, with a sentence, where a program is missing.
need() {
  command -v "$1" >/dev/null && return
  say "$1 is missing: apt install $2"
  return 1
}

find_linerate() {
  local here=$1
  linerate=${LINERATE:-$here/../target/release/linerate}
  [[ -x $linerate ]] || { say "there is no $linerate: cargo build --release, or set LINERATE"; exit 3; }
  linerate=$(readlink -f "$linerate")
  need jq jq || exit 3
}

# A directory of this benchmark's own, and an end that clears up.
begin() {
  work=$(mktemp -d "${BENCH_DIR:-.}/bench.XXXXXX")
  work=$(readlink -f "$work")
  export XDG_STATE_HOME=$work # where linerate keeps results
  started=()
  trap finish EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

finish() {
  local process
  for process in "${started[@]}"; do
    kill "$process" 2>/dev/null || true
    wait "$process" 2>/dev/null || true
  done
  [[ -z ${bench_lab:-} ]] || "$lab" down --name "$bench_lab"
  rm -rf -- "$work"
}

# select_figure STAGE PATTERN: from linerate's run on standard input, the figure of the stage over everything at once whose
# name matches. The one place that knows run.json's shape.
select_figure() {
  jq -er --arg stage "$1" --arg name "$2" '
    [.measurements[] | select(.stage == $stage and .together and (.name | test($name)))] | last
    | if . == null then empty else "\(.bytes_per_second) \(.cpu_seconds_per_gb)" end' ||
    { say "linerate measured no $1 “$2”: $(jq -c .errors "$work/run/run.json" 2>/dev/null)"; return 1; }
}

# run_linerate OPTION…: one measurement of one sample; run.json on standard output.
run_linerate() {
  rm -rf -- "$work/run"
  on_server "$linerate" run --json --output "$work/run" --repeats 1 --seconds "$seconds" "$@" 2>"$work/linerate.log" ||
    say "linerate run: exit $?: $(tail -n 1 "$work/linerate.log")"
}

# Where the two ends run; use_lab changes them to the two sides of a lab. `on_peer` becomes the command, so that it is
# ended by the number of the subshell that it was called in.
on_server() { "$@"; }
on_peer() { exec "$@"; }
peer_address=127.0.0.1

# in_background COMMAND…: started on the peer's side, ended with the benchmark.
in_background() {
  (on_peer "$@" >"$work/background.log" 2>&1 </dev/null) &
  started+=($!)
}

# cpu_of COMMAND…: runs it with its output to $work/out; user and system seconds of it and its children in `cpu_seconds`.
cpu_of() {
  local TIMEFORMAT='%U %S' user system status=0
  { time on_server "$@" >"$work/out" 2>"$work/err"; } 2>"$work/times" || status=$?
  read -r user system < <(tail -n 1 "$work/times")
  cpu_seconds=$(awk -v u="$user" -v s="$system" 'BEGIN { print u + s }')
  return "$status"
}

per_gb() { awk -v cpu="$1" -v bytes="$2" 'BEGIN { print (bytes > 0 ? cpu / (bytes / 1e9) : 0) }'; }

# in_turn A B: `runs` pairs of the two functions, each of which prints a figure, or up to `pairs`, until the interval of
# their ratio is 5 % wide at most; the lines go to $work/A and $work/B.
in_turn() {
  local run who
  : >"$work/$1" && : >"$work/$2"
  for ((run = 1; run <= runs || run <= pairs; run++)); do
    for who in "$1" "$2"; do
      "$who" >>"$work/$who" || { say "$who failed in run $run: $(tail -n 1 "$work/err" 2>/dev/null)"; return 1; }
    done
    ((run < runs)) || ! ratios "$1" "$2" 1 | awk '{ exit !($3 > 0 && ($4 - $3) / $2 <= 0.05) }' || break
  done
}

# ratios A B COLUMN: number of pairs, median of A / B over them, and the ends of its 95 % interval by order statistics
# (0 0 below six pairs: there is none).
ratios() {
  paste -d ' ' <(awk -v c="$3" '{ print $c }' "$work/$1") <(awk -v c="$3" '{ print $c }' "$work/$2") |
    awk '$2 > 0 { print $1 / $2 }' | sort -g | awk '{ v[NR] = $1 } END {
      if (!NR) { print 0, 0, 0, 0; exit }
      term = 0.5 ^ NR
      for (k = 0; below + term <= 0.025; k++) { below += term; term *= (NR - k) / (k + 1) }
      print NR, (NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2), (k ? v[k] : 0), (k ? v[NR + 1 - k] : 0) }'
}

# median WHO COLUMN, and (max - min) / median.
median() {
  awk -v c="$2" '{ print $c }' "$work/$1" | sort -g | awk '{ v[NR] = $1 } END { print (NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2) }'
}

spread() {
  awk -v c="$2" -v m="$(median "$1" "$2")" '{ if (NR == 1 || $c < low) low = $c; if (NR == 1 || $c > high) high = $c }
    END { print (m > 0 ? (high - low) / m * 100 : 0) }' "$work/$1"
}

# line WHO LABEL
line() {
  printf '  %-34s %9.1f MB/s (spread %4.1f %%)  %.3f CPU s/GB (spread %4.1f %%)\n' "$2" \
    "$(awk -v v="$(median "$1" 1)" 'BEGIN { print v / 1e6 }')" "$(spread "$1" 1)" "$(median "$1" 2)" "$(spread "$1" 2)"
}

# ratio_in_turn TITLE A B COLUMN GOAL OPERATOR: A / B, pair by pair, against the goal; `within` that part of 1.
ratio_in_turn() {
  ratios "$2" "$3" "$4" | awk -v title="$1" -v goal="$5" -v op="$6" '{
    met = op == ">=" ? $2 >= goal : op == "within" ? $2 >= 1 - goal && $2 <= 1 + goal : $2 < goal
    interval = $3 > 0 ? sprintf("%.3f to %.3f in 95 %%, ", $3, $4) : ""
    printf "  %-34s %9.3f  (%s%d pairs; goal %s %s: %s)\n", title, $2, interval, $1, op, goal, met ? "met" : "MISSED" }'
}

# ratio TITLE X Y GOAL OPERATOR: X / Y against the goal.
ratio() {
  awk -v title="$1" -v x="$2" -v y="$3" -v goal="$4" -v op="$5" 'BEGIN {
    r = y > 0 ? x / y : 0
    met = (op == ">=") ? r >= goal : r < goal
    printf "  %-34s %9.3f  (goal %s %s: %s)\n", title, r, op, goal, met ? "met" : "MISSED" }'
}

# make_file FILE MIB: not zero, written through to the disk, and out of the page cache.
make_file() {
  head -c "$2M" /dev/urandom >"$1" || { say "$1 cannot be written"; exit 3; }
  sync "$1"
  make_cold "$1"
}

# POSIX_FADV_DONTNEED over the whole file: needs no root and touches no other file.
make_cold() {
  dd if="$1" iflag=nocache count=0 status=none
}

# listening PORT: somebody on the peer's side listens there.
listening() {
  local hex
  hex=$(printf ':%04X' "$1")
  on_peer cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
    awk -v port="$hex" '$4 == "0A" && index($2, port) { found = 1 } END { exit !found }'
}

# start_and_wait PORT COMMAND…: in the background on the peer's side, until it listens.
start_and_wait() {
  local wanted=$1 tries
  shift
  in_background "$@"
  for ((tries = 0; tries < 100; tries++)); do
    (listening "$wanted") && return
    sleep 0.05
  done
  say "$1 does not listen on port $wanted: $(tail -n 1 "$work/background.log")"
  return 1
}

# Every option is an environment variable but this one: both ends in a lab of the benchmark's own, over an unshaped veth.
# It takes the place of loopback, which has no second network stack and an MTU of 65,536.
use_lab() {
  lab=$1/../lab/lab
  bench_lab=bench-$$
  "$lab" up --name "$bench_lab" --disks 1x0 --nics "${NICS:-0}" --mtu "${MTU:-9000}" --file-size "${FILE_MIB:-1024}M" >/dev/null
  peer_address=$("$lab" address --name "$bench_lab" 0)
  on_server() { "$lab" run --name "$bench_lab" -- "$@"; }
  on_peer() { exec "$lab" peer --name "$bench_lab" -- "$@"; }
}
