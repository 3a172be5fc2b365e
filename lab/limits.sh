# shellcheck shell=bash
# Control groups: the block throttle and the CPU quota, in version 1 or 2, whichever hierarchy has the controller.
# https://docs.kernel.org/admin-guide/cgroup-v1/blkio-controller.html and https://docs.kernel.org/admin-guide/cgroup-v2.html

# controller_home blkio|cpu: sets `version` and `mountpoint` of the hierarchy that has it; fails where none has.
controller_home() {
  local type options v2_name=$1
  [[ $1 == blkio ]] && v2_name=io
  while read -r _ mountpoint type options _; do
    version=1
    [[ $type == cgroup && ,$options, == *,$1,* ]] && return 0
    version=2
    [[ $type == cgroup2 && -e $mountpoint/cgroup.controllers ]] || continue
    [[ " $(<"$mountpoint/cgroup.controllers") " == *" $v2_name "* ]] && return 0
  done </proc/mounts
  return 1
}

# The mount points whose hierarchies the lab uses, each once.
group_homes() {
  local version mountpoint
  {
    controller_home blkio && echo "$mountpoint"
    controller_home cpu && echo "$mountpoint"
  } | sort -u
}

# make_groups SERVER_PERCENT PEER_PERCENT
make_groups() {
  local version mountpoint home_dir side
  controller_home blkio || die "this kernel has no block controller in its control groups, so that disks cannot be throttled" 3
  controller_home cpu || die "this kernel has no CPU controller in its control groups" 3
  for home_dir in $(group_homes); do
    mkdir -p "$home_dir/$group" 2>/dev/null || die "control groups cannot be made in $home_dir: is it a container without that right?" 3
    if [[ -e $home_dir/cgroup.subtree_control ]]; then
      delegate "$home_dir"
      delegate "$home_dir/$group"
    fi
    for side in server peer; do mkdir -p "$home_dir/$group/$side"; done
  done
  limit_cpu server "$1"
  limit_cpu peer "$2"
}

# Version 2: children have a controller only where the parent hands it down.
delegate() {
  local controller
  for controller in cpu io; do
    [[ " $(<"$1/cgroup.controllers") " == *" $controller "* ]] || continue
    echo "+$controller" >"$1/cgroup.subtree_control" || die "the $controller controller cannot be handed down in $1" 3
  done
}

# limit_cpu SIDE PERCENT: quota per 100 ms, the kernel's own period and that of container engines.
limit_cpu() {
  local version mountpoint
  (($2)) || return 0
  controller_home cpu
  if ((version == 1)); then
    echo 100000 >"$mountpoint/$group/$1/cpu.cfs_period_us"
    echo "$(($2 * 1000))" >"$mountpoint/$group/$1/cpu.cfs_quota_us"
  else
    echo "$(($2 * 1000)) 100000" >"$mountpoint/$group/$1/cpu.max"
  fi
}

# limit_host_cpu HOST PERCENT: of what `lab host HOST` runs.
limit_host_cpu() {
  local version mountpoint
  controller_home cpu || die "this kernel has no CPU controller in its control groups, so that $1 can have no quota" 3
  mkdir -p "$mountpoint/$group" 2>/dev/null || die "control groups cannot be made in $mountpoint: is it a container without that right?" 3
  if ((version == 2)); then
    delegate "$mountpoint"
    delegate "$mountpoint/$group"
  fi
  mkdir -p "$mountpoint/$group/$1"
  limit_cpu "$1" "$2"
}

# Puts this process into the group of a host, where it has one.
join_host_group() {
  local version mountpoint
  controller_home cpu || return 0
  [[ -d $mountpoint/$group/$1 ]] || return 0
  echo "$BASHPID" >"$mountpoint/$group/$1/cgroup.procs"
}

# limit_disk DEVICE MB_PER_SECOND REQUESTS_PER_SECOND: reads and writes of the server's group, each; 0 = no limit.
limit_disk() {
  local version mountpoint number bytes=$(($2 * 1000000)) key line
  (($2 || $3)) || return 0
  number=$(<"/sys/class/block/${1#/dev/}/dev")
  controller_home blkio
  if ((version == 1)); then
    for key in read write; do
      if (($2)); then echo "$number $bytes" >"$mountpoint/$group/server/blkio.throttle.${key}_bps_device"; fi
      if (($3)); then echo "$number $3" >"$mountpoint/$group/server/blkio.throttle.${key}_iops_device"; fi
    done
  else
    line=$number
    if (($2)); then line+=" rbps=$bytes wbps=$bytes"; fi
    if (($3)); then line+=" riops=$3 wiops=$3"; fi
    echo "$line" >"$mountpoint/$group/server/io.max"
  fi
}

# Puts this process, and so what it becomes, into a side's groups.
join_groups() {
  local home_dir
  for home_dir in $(group_homes); do
    echo "$BASHPID" >"$home_dir/$group/$1/cgroup.procs" || die "the control group of “$name” is gone; \`lab down\` and \`lab up\` make it anew"
  done
}

# Directories of the lab's groups that exist, the deepest first.
group_dirs() {
  local home_dir dir
  for home_dir in $(group_homes); do
    for dir in "$home_dir/$group/server" "$home_dir/$group/peer" "$home_dir/$group"/h[1-9]* "$home_dir/$group"; do
      if [[ -d $dir ]]; then echo "$dir"; fi
    done
  done
}

count_processes() {
  local version mountpoint
  controller_home cpu
  wc -l <"$mountpoint/$group/$1/cgroup.procs"
}

# kill_until_gone LISTER ARGUMENT…: kills the processes that the lister prints until it prints none, for two seconds.
kill_until_gone() {
  local tries pids
  for ((tries = 0; tries < 100; tries++)); do
    pids=$("$@" 2>/dev/null | sort -u | grep -vx "$$") || return 0
    # shellcheck disable=SC2086
    kill -KILL $pids 2>/dev/null || true
    sleep 0.02
  done
}

group_processes() {
  local dir
  for dir in $(group_dirs); do cat "$dir/cgroup.procs"; done
}

kill_groups() {
  kill_until_gone group_processes
}

# A group stays busy for a moment after its last process was killed.
remove_groups() {
  local dir tries
  for dir in $(group_dirs); do
    for ((tries = 0; tries < 100; tries++)); do
      rmdir "$dir" 2>/dev/null && break
      [[ -d $dir ]] || break
      sleep 0.02
    done
  done
  [[ -z $(group_dirs) ]] || echo "lab: the control groups $(group_dirs | tr '\n' ' ')are still in use and stay" >&2
}
