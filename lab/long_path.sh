# shellcheck shell=bash
# A long way between server and peer, with a delay, and loss and a bottleneck where they are asked for. Between the two cards of a
# NIC lies a namespace of its own, whose two cards a small program joins (long_path.c): this works on kernels without netem, too.

# need_long_path: the program is built where the lab is made, it takes a second.
need_long_path() {
  local missing=()
  ((rtt_us)) || return 0
  command -v cc >/dev/null || missing+=("cc (apt install gcc libc6-dev)")
  command -v ethtool >/dev/null || missing+=("ethtool (apt install ethtool)")
  ((${#missing[@]} == 0)) || die "--rtt needs $(joined "${missing[@]}"), which this machine lacks" 3
}

build_long_path() {
  ((rtt_us)) || return 0
  attempt "the program that delays packets cannot be built" \
    cc -O2 -std=gnu11 -o "$lab_dir/long_path" "$here/long_path.c" -lm -lpthread
  attempt "the network namespace $netns_path cannot be made" ip netns add "$netns_path"
  attempt "IPv6 cannot be switched off in $netns_path" without_ipv6 "$netns_path"
}

# make_long_pair I MTU: NIC I of each side, with the way between them.
make_long_pair() {
  local side netns
  for side in server peer; do
    netns=$netns_server
    [[ $side == server ]] || netns=$netns_peer
    attempt "NIC $1 cannot be made" \
      ip link add "nic$1" mtu "$2" netns "$netns" type veth peer name "$side$1" mtu "$2" netns "$netns_path"
    attempt "the way of NIC $1 cannot be brought up" ip -n "$netns_path" link set "$side$1" up
  done
  start_long_path "$1"
}

# start_long_path I: runs until its namespace is emptied by `lab down`. Half of the delay is each direction's.
start_long_path() {
  local i=$1 path tries
  (
    exec {lock}<&- # else nothing but its end would free the lab
    cd /
    exec setsid nsenter --net="/run/netns/$netns_path" -- "$lab_dir/long_path" "server$i" "peer$i" "$((rtt_us / 2))" \
      "$((jitter_us / 2))" "$loss_per_billion" "$path_mbit" "$(path_queue_bytes)" "$lab_dir/path$i" </dev/null >"$lab_dir/path$i.log" 2>&1
  ) &
  path=$!
  disown "$path"
  for ((tries = 0; tries < 200; tries++)); do
    [[ ! -s $lab_dir/path$i ]] || return 0
    kill -0 "$path" 2>/dev/null || break
    sleep 0.02
  done
  die "the way of NIC $i does not begin: $(tail -n 1 "$lab_dir/path$i.log")"
}

# The queue before the bottleneck holds what is under way in one round trip, and 1 MB at least:
# https://www.rfc-editor.org/rfc/rfc3439 names that rule.
path_queue_bytes() {
  local bytes=$((path_mbit * rtt_us / 8))
  echo "$((bytes > 1000000 ? bytes : 1000000))"
}

path_words() {
  local words
  words="round trip $(milliseconds "$rtt_us")"
  if ((jitter_us)); then words+=" ± $(milliseconds "$jitter_us")"; fi
  if ((loss_per_billion)); then words+=", loses $(awk "BEGIN { printf \"%g\", $loss_per_billion / 1e7 }") % each way"; fi
  if ((path_mbit)); then words+=", bottleneck of $path_mbit Mb/s"; fi
  if ((path_mbit)) && ! is_guest; then words+=" with a queue of $(path_queue_bytes) bytes"; fi
  echo "$words"
}

# What each direction of a NIC's way has carried and lost so far.
show_path() {
  local line
  while read -r line; do echo "         $line"; done <"$lab_dir/path$1"
}

milliseconds() {
  awk "BEGIN { printf \"%g ms\", $1 / 1000 }"
}

# microseconds WORD WHAT: `50ms`, `1.5ms`, `200us` or `1s`, up to 10 s.
microseconds() {
  local factor=1
  [[ $1 =~ ^([0-9]{1,5}(\.[0-9]{1,3})?)(us|ms|s)$ ]] || wrong_use "“$1” is no $2 (like 50ms)"
  case ${BASH_REMATCH[3]} in
    ms) factor=1000 ;;
    s) factor=1000000 ;;
  esac
  factor=$(awk "BEGIN { printf \"%.0f\", ${BASH_REMATCH[1]} * $factor }")
  ((factor <= 10000000)) || wrong_use "a $2 of $1 is longer than 10 s"
  echo "$factor"
}

# loss_share WORD: `0.01%` as parts of 10^9.
loss_share() {
  local parts
  [[ $1 =~ ^([0-9]{1,3}(\.[0-9]{1,7})?)%?$ ]] || wrong_use "“$1” is no loss (like 0.01%)"
  parts=$(awk "BEGIN { printf \"%.0f\", ${BASH_REMATCH[1]} * 1e7 }")
  ((parts <= 500000000)) || wrong_use "a loss of $1 leaves no connection: 50% at most"
  echo "$parts"
}

# path_option OPTION VALUE: sets what it says.
path_option() {
  case $1 in
    --rtt)
      rtt_us=$(microseconds "$2" "round trip")
      ((rtt_us)) || wrong_use "a round trip of $2 is none: leave --rtt away"
      ;;
    --jitter) jitter_us=$(microseconds "$2" jitter) ;;
    --loss) loss_per_billion=$(loss_share "$2") ;;
    --rate) path_mbit=$(number "$2" 100000 "rate of the path in Mb/s") ;;
  esac
}

check_path() {
  ((rtt_us)) || ((!jitter_us && !loss_per_billion && !path_mbit)) ||
    wrong_use "--jitter, --loss and --rate are those of a long path: give its round trip with --rtt"
  ((jitter_us <= rtt_us)) || wrong_use "a jitter longer than the round trip is not possible"
}
