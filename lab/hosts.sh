# shellcheck shell=bash
# Many hosts: each a network namespace with one NIC, shaped both ways, at the switch of its rack; the racks' switches are
# joined by a core, and so is the head, from which a fleet is started. Disks are none of it, and control groups only where a host has a CPU quota.

readonly most_hosts=64

# up_hosts OPTIONS…: `lab up --hosts N …`
up_hosts() {
  local hosts=0 racks=1 uplink=0 rate=500 slow=() chosen=linerate option value taken
  while (($#)); do
    take_option "lab up --hosts" "$@"
    shift "$taken"
    case $option in
      --name) chosen=$value ;;
      --hosts) hosts=$(number "$value" "$most_hosts" "number of hosts") ;;
      --racks) racks=$(number "$value" 8 "number of racks") ;;
      --uplink) uplink=$(number "$value" 400000 "speed of an uplink") ;;
      --rate) rate=$(number "$value" 400000 "speed of a host") ;;
      --slow) slow+=("$value") ;;
      *) wrong_use "\`lab up --hosts\` has no option $option" ;;
    esac
  done
  ((hosts >= 2 && racks >= 1 && racks <= hosts)) || wrong_use "$hosts hosts in $racks racks are not possible: two hosts at least, and one in each rack"
  choose_name "$chosen"
  need_root up
  need_tools none
  check_slow "${slow[@]}"
  begin_up
  make_hosts
  echo "hosts=$hosts racks=$racks uplink=$uplink rate=$rate slow='${slow[*]}'" >"$lab_dir/hosts"
  end_up
  show_hosts
}

# Planted faults: h3:send:100, h3:receive:100 (Mb/s), h1:h2:100 for what the first sends to the second; h3:cpu:10 (a
# quota, per cent of a CPU), h3:mtu:1500, h3:queue:32 (KiB of what waits for it at its
# switch), h3:rules:60000 (of a firewall, by which each large packet that it receives passes on one CPU).
check_slow() {
  local one
  for one in "$@"; do
    [[ $one =~ ^h([0-9]{1,2}):(send|receive|cpu|mtu|queue|rules|h[0-9]{1,2}):([0-9]{1,6})$ ]] || wrong_use "“$one” is no slow host: h3:send:100, h3:receive:100, h1:h2:100, h3:cpu:10, h3:mtu:1500, h3:queue:32 or h3:rules:60000"
    ((BASH_REMATCH[1] >= 1 && BASH_REMATCH[1] <= hosts)) || wrong_use "“$one” names no host of h1 to h$hosts"
    [[ ${BASH_REMATCH[2]} != rules ]] || command -v nft >/dev/null || die "“$one” needs nft (apt install nftables)" 3
  done
}

host_netns() {
  echo "linerate-$name-$1"
}

# host_address N: 254 is the head.
host_address() {
  local base
  base=$(address 250 "$1")
  echo "$base"
}

make_hosts() {
  local switch rack i
  mkdir "$lab_dir/sys"
  switch=$(host_netns switch)
  make_host_netns switch
  attempt "the core cannot be made" ip -n "$switch" link add core mtu 9000 type bridge
  attempt "the core cannot be brought up" ip -n "$switch" link set core up
  for ((rack = 0; rack < racks; rack++)); do
    attempt "the switch of rack $rack cannot be made" ip -n "$switch" link add "rack$rack" mtu 9000 type bridge
    attempt "the uplink of rack $rack cannot be made" \
      ip -n "$switch" link add "up$rack" mtu 9000 type veth peer name "down$rack" mtu 9000
    attempt "rack $rack cannot be joined" ip -n "$switch" link set "up$rack" master "rack$rack" up
    attempt "rack $rack cannot be joined" ip -n "$switch" link set "down$rack" master core up
    attempt "rack $rack cannot be brought up" ip -n "$switch" link set "rack$rack" up
    if ((uplink)); then
      shape_link "$switch" "up$rack" "$uplink"
      shape_link "$switch" "down$rack" "$uplink"
    fi
  done
  for ((i = 1; i <= hosts; i++)); do
    plug_in "h$i" "$i" "rack$(((i - 1) * racks / hosts))"
    shape_host "$i"
    # A packet of the kernel's own size, up to 64 KiB, would never fit into a short queue, and passes a firewall once;
    # on a wire it is none.
    if [[ " ${slow[*]}" =~ :(queue|rules): ]]; then
      attempt "packets of h$i cannot be made small" ip -n "$(host_netns "h$i")" link set eth0 gso_max_segs 1
    fi
  done
  plug_in head 254 core
}

make_host_netns() {
  local netns
  netns=$(host_netns "$1")
  attempt "the network namespace $netns cannot be made" ip netns add "$netns"
  attempt "IPv6 cannot be switched off in $netns" without_ipv6 "$netns"
  attempt "the loopback of $netns cannot be brought up" ip -n "$netns" link set lo up
}

# plug_in HOST NUMBER BRIDGE
plug_in() {
  local netns switch
  netns=$(host_netns "$1") switch=$(host_netns switch)
  make_host_netns "$1"
  attempt "the NIC of $1 cannot be made" \
    ip -n "$switch" link add "$1" mtu 9000 type veth peer name eth0 mtu 9000 netns "$netns"
  attempt "$1 cannot be plugged in" ip -n "$switch" link set "$1" master "$3" up
  attempt "the address of $1 cannot be given" ip -n "$netns" addr add "$(host_address "$2")/24" dev eth0
  attempt "the NIC of $1 cannot be brought up" ip -n "$netns" link set eth0 up
}

# What a host sends is shaped at its NIC, what it receives at the switch's port to it.
shape_host() {
  local one send=$rate receive=$rate to=0 towards=0 queue=()
  for one in "${slow[@]}"; do
    IFS=: read -r host direction speed <<<"$one"
    [[ $host == "h$1" ]] || continue
    case $direction in
      send) send=$speed ;;
      receive) receive=$speed ;;
      cpu) limit_host_cpu "$host" "$speed" ;;
      queue) queue=($((speed * 1024))) ;;
      rules) slow_rules "$(host_netns "$host")" "$speed" ;;
      mtu) attempt "the MTU of $host cannot be set" ip -n "$(host_netns "$host")" link set eth0 mtu "$speed" ;;
      *) to=${direction#h} towards=$speed ;;
    esac
  done
  if ((to)); then
    shape_towards "$(host_netns "h$1")" "$send" "$to" "$towards"
  elif ((send)); then
    shape_link "$(host_netns "h$1")" eth0 "$send"
  fi
  if ((receive)); then shape_link "$(host_netns switch)" "h$1" "$receive" "${queue[@]}"; fi
}

# What a hypervisor takes of a CPU, some milliseconds each time, is lost to a shaper whose bucket is full before it runs
# again: with 1 ms in it hosts of 400 Mb/s had 4 to 5 % less while 6 to 9 % were taken, with 10 ms 0.2 %.
readonly bucket_ms=10

# shape_link NETNS NIC MBIT [QUEUE]: a bucket would be part of a short queue.
shape_link() {
  if (($# > 3)); then shape "$@"; else shape "$@" '' "$bucket_ms"; fi
}

# slow_rules NETNS RULES: the host's one RX queue is worked on by one CPU, in softirq. Acknowledgements pass, so that it
# sends as the others do.
slow_rules() {
  # shellcheck disable=SC2016
  attempt "the rules of $1 cannot be made" nsenter --net="/run/netns/$1" -- unshare --mount -- bash -c '
    set -e
    mount -t sysfs sysfs /sys
    cpu=$(($(nproc) > 1))
    for queue in /sys/class/net/eth0/queues/rx-*; do echo $((1 << cpu)) >"$queue/rps_cpus"; done
    {
      printf "table inet slow {\nchain in {\ntype filter hook input priority 0; policy accept;\nmeta length < 1000 accept\n"
      for ((i = 0; i < $1; i++)); do echo counter; done
      printf "}\n}\n"
    } | nft -f -' lab "$2"
}

# shape_towards NETNS RATE HOST SPEED: all at RATE, but what goes to that host at SPEED.
shape_towards() {
  local add=(tc -n "$1")
  burst() { echo $(($1 * 125 * bucket_ms > 70000 ? $1 * 125 * bucket_ms : 70000)); }
  attempt "$1 cannot be shaped" "${add[@]}" qdisc add dev eth0 root handle 1: htb default 1
  attempt "$1 cannot be shaped" "${add[@]}" class add dev eth0 parent 1: classid 1:1 htb rate "${2}mbit" burst "$(burst "$2")" cburst "$(burst "$2")"
  attempt "$1 cannot be shaped" "${add[@]}" class add dev eth0 parent 1: classid 1:2 htb rate "${4}mbit" burst "$(burst "$4")" cburst "$(burst "$4")"
  attempt "$1 cannot tell its flows apart" "${add[@]}" filter add dev eth0 parent 1: protocol ip u32 \
    match ip dst "$(host_address "$3")/32" flowid 1:2
}

is_hosts() {
  [[ -e $lab_dir/hosts ]]
}

show_hosts() {
  local hosts racks uplink rate slow
  # shellcheck disable=SC1091
  source "$lab_dir/hosts"
  echo "lab “$name” is up: h1 to h$hosts, $(speed_words "$rate" Mb/s shaped) each way, in $racks racks"
  if ((racks > 1)); then echo "  uplinks: $(speed_words "$uplink" Mb/s shaped)"; fi
  if [[ $slow ]]; then echo "  slow: $slow"; fi
  echo "  addresses $(host_address 1) and on; the head has $(host_address 254)"
}

# command_host HOST COMMAND…: becomes COMMAND on that host; the head is one too.
command_host() {
  need_root host
  local host=${1:-}
  (($# > 1)) || wrong_use "\`lab host\` wants a host and a command: lab host h1 -- COMMAND…"
  shift
  [[ $1 != -- ]] || shift
  is_hosts || die "lab “$name” has no hosts; \`lab up --hosts 8 --name $name\` makes some"
  [[ $host =~ ^(h[0-9]{1,2}|head)$ && -e /run/netns/$(host_netns "$host") ]] || die "lab “$name” has no host “$host”" 2
  join_host_group "$host"
  become "$(host_netns "$host")" "$host" "$@"
}

# All namespaces of this lab's hosts, whatever of them there is.
hosts_netns() {
  local path
  for path in /run/netns/"linerate-$name"-*; do
    if [[ ${path##*/"linerate-$name"-} =~ ^(h[0-9]{1,2}|head|switch)$ ]]; then echo "${path##*/}"; fi
  done
}

hosts_processes() {
  local netns
  for netns in $(hosts_netns); do ip netns pids "$netns" 2>/dev/null || true; done
}

remove_hosts() {
  local netns
  kill_until_gone hosts_processes
  for netns in $(hosts_netns); do
    ip netns delete "$netns" 2>/dev/null || rm -f "/run/netns/$netns"
  done
}
