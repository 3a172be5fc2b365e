# shellcheck shell=bash
# What runs in the guest once its root is there: drivers, mounts, NICs; then a process for each command of `lab run`.
# The host writes `start JOB`, `signal JOB NAME` or `off` to the port; what a job prints and its status are files in
# its folder.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
readonly lab=/run/lab
guest_name=guest disks=0 nics=0 network=10.0 end=1 long_path=""

mount_rest() {
  mkdir -p /dev/pts /dev/shm /run/lock
  mount -t devpts -o gid=5,mode=620 devpts /dev/pts
  mount -t tmpfs tmpfs /dev/shm
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  mount -t securityfs securityfs /sys/kernel/security
  mount -t debugfs debugfs /sys/kernel/debug
  mount -t configfs configfs /sys/kernel/config
  ln -sf /proc/self/fd /dev/fd
}

# There is no udev: what the memory disk had no driver for, by what the device says it is.
load_drivers() {
  local place alias wanted=()
  for place in /sys/bus/pci/devices/*; do
    alias=$(<"$place/modalias")
    [[ $alias == *bc0[12]sc* && ! -e $place/driver ]] && wanted+=("$alias")
  done
  ((${#wanted[@]} == 0)) || modprobe --all --quiet --use-blacklist "${wanted[@]}"
}

# Disks come a moment after their driver.
wait_for_disks() {
  local tries there
  for ((tries = 0; tries < 400; tries++)); do
    there=(/sys/block/nvme*n* /sys/block/sd*)
    ((${#there[@]} >= disks)) && return
    sleep 0.05
  done
}

# The kernel's own numbers are by chance: drivers look at several cards at once.
name_nics() {
  local i=0 place
  for place in /sys/bus/pci/devices/*/net/*; do ip link set "${place##*/}" name "nic$((i++))"; done
  while ((i--)); do ip link set "nic$i" name "eth$i"; done
}

# NIC I has the address of the lab's network I. All of them are at one switch: each answers for itself alone.
bring_nics_up() {
  local i
  echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore
  echo 2 >/proc/sys/net/ipv4/conf/all/arp_announce
  ip link set lo up
  name_nics
  for ((i = 0; i < nics; i++)); do
    ip addr add "$network.$i.$end/24" dev "eth$i" && ip link set "eth$i" up
  done
  wait_for_links
  delay_links
}

# What this guest sends goes half of a long way.
delay_links() {
  local i
  [[ $long_path ]] || return 0
  modprobe sch_netem
  # shellcheck disable=SC2086
  for ((i = 0; i < nics; i++)); do tc qdisc replace dev "eth$i" root netem $long_path; done
}

# A card takes two seconds to see its cable; one that has not is no NIC that a plan counts on.
wait_for_links() {
  local i tries
  for ((i = 0, tries = 0; i < nics && tries < 200; tries++)); do
    if [[ $(<"/sys/class/net/eth$i/carrier") == 1 ]]; then ((i += 1)); else sleep 0.05; fi
  done
}

# port NAME: the device of a virtio port.
port() {
  local place
  for place in /sys/class/virtio-ports/*; do
    [[ $(<"$place/name") != "$1" ]] || echo "/dev/${place##*/}"
  done
}

# forget_changed FILE: a program that was built again would be half of the old one.
declare -A seen
forget_changed() {
  local line path changed=false
  while IFS= read -r line; do
    path=${line% * * *}
    [[ ${seen[$path]-$line} == "$line" ]] || changed=true
    seen[$path]=$line
  done <"$1"
  ! $changed || echo 3 >/proc/sys/vm/drop_caches
}

run_job() {
  local job=$lab/jobs/$1 status=0
  setsid bash "$job/command" </dev/null >"$job/stdout" 2>"$job/stderr" &
  echo $! >"$job/pid"
  wait $! || status=$?
  echo "$status" >"$job/status.new"
  mv "$job/status.new" "$job/status"
}

# The host switches off a guest that does not count any more.
beat() {
  local count=0
  while :; do echo "$((count += 1))" >"$lab/beat"; sleep 2; done
}

serve() {
  local what job signal
  while read -r what job signal; do
    case $what in
      start)
        forget_changed "$lab/jobs/$job/files"
        run_job "$job" &
        ;;
      signal) kill -s "$signal" -- "-$(<"$lab/jobs/$job/pid")" 2>/dev/null ;;
      off) sync && echo o >/proc/sysrq-trigger ;;
    esac
  done
}

shopt -s nullglob
# shellcheck disable=SC1091
source "$lab/settings"
mount_rest 2>/dev/null
hostname "$guest_name"
load_drivers
wait_for_disks
bring_nics_up
cut -d ' ' -f 1 /proc/uptime >"$lab/up.new"
mv "$lab/up.new" "$lab/up"
beat &
serve <"$(port lab)"
