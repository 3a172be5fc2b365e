# shellcheck shell=bash
# What the lab says, and how it reads the words it is given.

die() {
  echo "lab: $1" >&2
  exit "${2:-1}"
}

wrong_use() {
  die "$1; \`lab --help\` shows the use" 2
}

# attempt WHAT COMMAND…: what the command says is shown only where it fails, after what it was for.
attempt() {
  local what=$1 said
  shift
  said=$("$@" 2>&1) || die "$what: $(tail -n 1 <<<"${said:-$1 failed without a word}")"
}

need_root() {
  ((EUID == 0)) || die "\`lab $1\` makes network namespaces, mounts and control groups and must run as root: sudo lab/lab $1 …" 3
}

# Names each missing program with the Debian package that has it.
need_tools() {
  local missing=() wanted tool package
  wanted=(losetup:mount mount:mount nsenter:util-linux unshare:util-linux flock:util-linux ip:iproute2 tc:iproute2)
  case $1 in
    xfs) wanted+=(mkfs.xfs:xfsprogs) ;;
    ext4) wanted+=(mkfs.ext4:e2fsprogs) ;;
    btrfs*) wanted+=(mkfs.btrfs:btrfs-progs btrfs:btrfs-progs) ;;
  esac
  for tool in "${wanted[@]}"; do
    package=${tool#*:} tool=${tool%:*}
    command -v "$tool" >/dev/null || missing+=("$tool (apt install $package)")
  done
  ((${#missing[@]} == 0)) || die "the lab needs $(joined "${missing[@]}"), which this machine lacks" 3
}

# need_kernel FS: the kernel can mount it, by itself or by a module.
need_kernel() {
  local kind=${1%%-*}
  grep -qw "$kind" /proc/filesystems || modprobe -q "$kind" 2>/dev/null || true
  grep -qw "$kind" /proc/filesystems || die "this kernel has no $kind; choose another file system with --fs" 3
}

# check_file_system FS DISKS
check_file_system() {
  case $1 in
    xfs | ext4 | btrfs) ;;
    btrfs-raid0 | btrfs-raid1) (($2 >= 2)) || wrong_use "$1 wants two disks or more, like --disks 2x50" ;;
    *) wrong_use "“$1” is no file system of the lab: xfs, ext4, btrfs, btrfs-raid0 or btrfs-raid1" ;;
  esac
}

joined() {
  local text=$1
  shift
  while (($#)); do text+=", $1" && shift; done
  echo "$text"
}

# number WORD LARGEST WHAT: a whole number without sign, else wrong use.
number() {
  if ! [[ $1 =~ ^[0-9]{1,9}$ ]] || ((10#$1 > $2)); then wrong_use "“$1” is no $3 (a whole number up to $2)"; fi
  echo "$((10#$1))"
}

# speeds WORDS LARGEST WHAT: `4x50` or `100,20` or `2x100,20` as a list, one a line.
speeds() {
  local part count speed i total=0 parts
  IFS=, read -r -a parts <<<"$1"
  [[ $1 != "" && $1 != *, ]] || wrong_use "“$1” is no list of $3"
  for part in "${parts[@]}"; do
    count=1 speed=$part
    if [[ $part == *x* ]]; then
      count=$(number "${part%%x*}" 64 "number of $3")
      speed=${part#*x}
    fi
    speed=$(number "$speed" "$2" "speed of $3")
    total=$((total + count))
    ((count >= 1 && total <= 64)) || wrong_use "“$1” makes $total $3; 1 to 64 are possible"
    for ((i = 0; i < count; i++)); do echo "$speed"; done
  done
}

# mebibytes WORD: a file size in whole MiB.
mebibytes() {
  local bytes
  [[ $1 =~ ^([0-9]{1,9})([KMG]?)(i?B)?$ ]] || wrong_use "“$1” is no file size (like 128M)"
  bytes=$((10#${BASH_REMATCH[1]}))
  case ${BASH_REMATCH[2]} in
    K) bytes=$((bytes << 10)) ;;
    M) bytes=$((bytes << 20)) ;;
    G) bytes=$((bytes << 30)) ;;
  esac
  ((bytes >= 1 << 20 && bytes % (1 << 20) == 0)) || wrong_use "a file of “$1” is not possible: whole MiB, one at least"
  echo "$((bytes >> 20))"
}

# take_option COMMAND WORD…: sets `option` and `value` by the first word, or the first two, and `taken`, how many.
take_option() {
  local command=$1
  shift
  option=$1 taken=1
  case $option in
    -h | --help) usage && exit 0 ;;
    --*=*) value=${option#*=} option=${option%%=*} ;;
    --*) (($# > 1)) || wrong_use "$option wants a value"; value=$2 taken=2 ;;
    *) wrong_use "\`$command\` takes no “$option”" ;;
  esac
}

# Fills the variables of command_up.
parse_up_options() {
  local option value taken chosen=linerate list
  while (($#)); do
    take_option "lab up" "$@"
    shift "$taken"
    case $option in
      --name) chosen=$value ;;
      --disks) list=$(speeds "$value" 100000 disks); mapfile -t disks <<<"$list" ;;
      --nics) list=$(speeds "$value" 400000 NICs); mapfile -t nics <<<"$list" ;;
      --mtu) mtu=$(number "$value" 65535 MTU); ((mtu >= 576)) || wrong_use "an MTU of $mtu is below IPv4's 576" ;;
      --file-size) file_mib=$(mebibytes "$value") ;;
      --iops) iops=$(number "$value" 10000000 "number of requests a second") ;;
      --shared)
        [[ $value != *:* ]] || shared_disks=$(number "${value#*:}" 64 "number of disks")
        shared=$(number "${value%%:*}" 100000 "speed of a device")
        ;;
      --server-cpu) server_cpu=$(number "$value" 100000 "percentage of a core") ;;
      --peer-cpu) peer_cpu=$(number "$value" 100000 "percentage of a core") ;;
      --fs) fs=$value ;;
      --rtt | --jitter | --loss | --rate) path_option "$option" "$value" ;;
      *) wrong_use "\`lab up\` has no option $option" ;;
    esac
  done
  check_file_system "$fs" "${#disks[@]}"
  check_path
  choose_name "$chosen"
}

# One command at a time works on a lab. The lock is on the lab's directory and is inherited by every child of `up`, so
# that `down` after a killed `up` waits for what that still had running. The directory may have been removed meanwhile.
hold_lock() {
  local tries
  for ((tries = 0; tries < 5; tries++)); do
    mkdir -p "$lab_dir"
    exec {lock}<"$lab_dir" || continue
    flock --timeout 30 "$lock" || return 1
    [[ /proc/self/fd/$lock -ef $lab_dir ]] && return 0
    exec {lock}<&-
  done
  return 1
}

quota_words() {
  if (($1)); then echo "$1 % of one core"; else echo "no quota"; fi
}

sharing_disks() {
  if ((shared_disks < ${#disks[@]})); then echo "the first $shared_disks disks"; else echo "all disks"; fi
}

show_status() {
  local i device place
  echo "lab “$name” is up, $fs"
  for i in "${!disks[@]}"; do
    # The kernel's name of it is what linerate calls it.
    device=$(<"$lab_dir/device$i")
    place=$lab_dir/disk$i/data
    if is_array "$fs" && ((i > 0)); then place="(part of disk0)"; fi
    printf '  disk%d  %-14s %-8s %s\n' "$i" "$(speed_words "${disks[i]}" MB/s throttled)" "${device#/dev/}" "$place"
  done
  if ((shared)); then echo "  $(sharing_disks) lie on one device of $shared MB/s"; fi
  if ((iops)); then echo "  each disk answers $iops requests a second"; fi
  for i in "${!nics[@]}"; do
    printf '  nic%d   %-14s MTU %d, %s to the peer’s %s\n' "$i" "$(speed_words "${nics[i]}" Mb/s shaped)" "$mtu" \
      "$(address "$i" 1)" "$(address "$i" 2)"
    if ((rtt_us)); then show_path "$i"; fi
  done
  if ((rtt_us)); then echo "  the way to the peer: $(path_words)"; fi
  echo "  server CPU: $(quota_words "$server_cpu"), $(count_processes server) processes"
  echo "  peer CPU:   $(quota_words "$peer_cpu"), $(count_processes peer) processes"
}

speed_words() {
  if (($1)); then echo "$1 $2"; else echo "not $3"; fi
}
