# shellcheck shell=bash
# NICs: veth pairs between two network namespaces, both ends shaped by a token bucket. Nothing is made in the host's own
# namespace, and no route leads out of these two.

# make_nics MTU SPEED…
make_nics() {
  local mtu=$1 i speed netns
  shift
  for netns in "$netns_server" "$netns_peer"; do
    attempt "the network namespace $netns cannot be made" ip netns add "$netns"
    attempt "IPv6 cannot be switched off in $netns" without_ipv6 "$netns"
    attempt "the loopback of $netns cannot be brought up" ip -n "$netns" link set lo up
  done
  build_long_path
  i=0
  for speed in "$@"; do
    if ((rtt_us)); then
      make_long_pair "$i" "$mtu"
    else
      attempt "NIC $i cannot be made" \
        ip link add "nic$i" mtu "$mtu" netns "$netns_server" type veth peer name "nic$i" mtu "$mtu" netns "$netns_peer"
    fi
    make_end "$netns_server" "$i" "$(address "$i" 1)" "$speed"
    make_end "$netns_peer" "$i" "$(address "$i" 2)" "$speed"
    i=$((i + 1))
  done
}

# address I END: 10.x.y.END of NIC I. x comes from the lab's name, so that the addresses of two labs are told apart in a
# report; they cannot meet, each lab has namespaces of its own.
address() {
  local sum
  sum=$(printf '%s' "$name" | cksum)
  echo "10.$((${sum%% *} % 254 + 1)).$1.$2"
}

# make_end NETNS I ADDRESS SPEED
make_end() {
  attempt "$3 cannot be given to NIC $2" ip -n "$1" addr add "$3/24" dev "nic$2"
  attempt "NIC $2 cannot be brought up" ip -n "$1" link set "nic$2" up
  receive_in_own_thread "$1" "nic$2"
  if (($4)); then shape "$1" "nic$2" "$4"; fi
}

# receive_in_own_thread NETNS NIC. A veth pair otherwise runs the receiving stack wherever the other end happens to send or to
# acknowledge: a side's quota then pays for the other side's work, a third of a receiver's time, and differently from run to run.
# With its own NAPI thread (veth has NAPI with GRO, Linux 5.13; threaded: 5.12) each side pays for its own system calls only, as two
# hosts with interrupt cores would. A kernel or machine that lacks it makes a lab that is only less steady.
receive_in_own_thread() {
  # shellcheck disable=SC2016
  command -v ethtool >/dev/null && nsenter --net="/run/netns/$1" -- unshare --mount --propagation private -- bash -c '
    set -e
    mount -t sysfs -o nosuid,nodev,noexec sysfs /sys
    ethtool -K "$1" gro on
    echo 1 >"/sys/class/net/$1/threaded"' lab "$2" >/dev/null 2>&1 ||
    echo "lab: $2 receives in whatever context there is (no ethtool, or Linux before 5.13): CPU quotas hold less evenly" >&2
}

# shape NETNS NIC MBIT [QUEUE [BUCKET_MS]]. The bucket holds 1 ms of the rate, and one whole 64 KiB
# segmentation-offload packet with its headers at least (a smaller bucket makes tbf cut it up): that is all a burst after
# a pause gets for nothing. The queue holds 5 ms, and 1 MB at least, more than a UDP socket's default send buffer: a sender is then held back and not dropped.
# Measured: TCP gets 0.998 or more of the payload's share of 500, 1,000 and 10,000 Mb/s at MTU 9000.
shape() {
  local per_ms=$(($3 * 125)) burst limit
  burst=$((per_ms * ${5:-1}))
  burst=$((burst > 70000 ? burst : 70000))
  limit=$((per_ms * 5 > 1000000 ? per_ms * 5 : 1000000))
  limit=${4:-$limit}
  attempt "$2 cannot be shaped to $3 Mb/s" \
    tc -n "$1" qdisc add dev "$2" root tbf rate "$3mbit" burst "$burst" limit "$limit"
}

# No router solicitations and no duplicate-address probes among what is measured.
without_ipv6() {
  # shellcheck disable=SC2016
  nsenter --net="/run/netns/$1" -- bash -c '
    for scope in all default; do
      file=/proc/sys/net/ipv6/conf/$scope/disable_ipv6
      if [[ -w $file ]]; then echo 1 >"$file"; fi
    done'
}

netns_exists() {
  [[ -e /run/netns/$1 ]]
}

netns_processes() {
  local netns
  for netns in "$netns_server" "$netns_peer" "$netns_path"; do
    if netns_exists "$netns"; then ip netns pids "$netns"; fi
  done
}

kill_netns() {
  kill_until_gone netns_processes
}

# The veth pairs go with their namespaces.
remove_nics() {
  local netns
  for netns in "$netns_server" "$netns_peer" "$netns_path"; do
    if netns_exists "$netns"; then
      ip netns delete "$netns" 2>/dev/null || rm -f "/run/netns/$netns"
    fi
  done
}
