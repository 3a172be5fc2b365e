# shellcheck shell=bash
# `lab up --qemu`: a whole server emulated by QEMU, without KVM. Its devices are those of a machine file; its root is
# the host's, read-only below an overlay. It shows what linerate does with real sysfs, never a speed.

# What the guest says it is: linerate counts the links of a machine that says QEMU as made up.
readonly guest_maker="linerate lab"
# What QEMU takes itself; the code that it has translated is most of it.
readonly emulator_mib=1024

need_qemu_tools() {
  local missing=() tool package
  [[ $(uname -m) == x86_64 ]] || die "a guest has an x86 processor and this machine's programs, which are $(uname -m)'s" 3
  for tool in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static modprobe:kmod depmod:kmod tar:tar; do
    package=${tool#*:} tool=${tool%:*}
    command -v "$tool" >/dev/null || missing+=("$tool (apt install $package)")
  done
  if ldd "$(command -v busybox)" 2>/dev/null | grep -q '=>'; then
    missing+=("a busybox without libraries (apt install busybox-static)")
  fi
  ((${#missing[@]} == 0)) || die "a guest needs $(joined "${missing[@]}"), which this machine lacks" 3
}

# is_guest: this lab is a guest of QEMU.
is_guest() {
  [[ -e $lab_dir/qemu ]]
}

command_up_qemu() {
  local machine=$here/server.toml memory_mib=2048 disk_mib=256 disk_rate=0 visible=false iommu=false boot_seconds=120
  local join="" append="" rtt_us=0 jitter_us=0 loss_per_billion=0 path_mbit=0
  local server=() devices=() disks=() nics=() nodes=0 cores=0 notes=()
  parse_qemu_options "$@"
  need_root up
  need_qemu_tools
  read_server
  begin_up
  find_kernel
  need_memory
  echo "boot_seconds=$boot_seconds" >"$lab_dir/qemu"
  make_groups 0 0
  make_store "$((disk_mib * ${#disks[@]}))"
  need_room "$(readlink -f "$lab_dir/images")" "$((disk_mib * ${#disks[@]}))" "make room, name another place with TMPDIR, or ask for less with --disk-size"
  make_guest_folder
  make_initrd
  start_qemu
  wait_for_guest
  show_guest >"$lab_dir/status"
  end_up
  command_status
}

# The program that turns a machine file into QEMU's devices: beside linerate, where cargo builds the examples.
find_qemu_server() {
  local linerate built
  linerate=$(find_linerate) || exit
  for built in "${linerate%/*}/examples/qemu-server" "$here/../target/release/examples/qemu-server"; do
    if [[ -x $built ]]; then
      readlink -f "$built"
      return
    fi
  done
  die "there is no qemu-server yet: cargo build --release --example qemu-server" 3
}

# The devices, as linerate reads the machine file.
read_server() {
  local qemu_server said line status=0
  qemu_server=$(find_qemu_server)
  said=$("$qemu_server" "$machine" 2>&1) || status=$?
  ((status == 0)) || die "$(tail -n 1 <<<"$said")" "$status"
  while read -r line; do
    case $line in
      "nodes "*) nodes=${line#* } ;;
      "cores "*) cores=${line#* } ;;
      "device e1000e"*) devices+=(-device "${line#* },mac=$(mac_of "${#nics[@]}")") ;;
      "device "*) devices+=(-device "${line#* }") ;;
      "disk "*) disks+=("${line#* }") ;;
      "nic "*) nics+=("${line#* }") ;;
      "note "*) notes+=("${line#* }") ;;
    esac
  done <<<"$said"
  ((nodes)) || die "$qemu_server printed no server for $machine: is it older than the lab?"
}

# mac_of NIC: QEMU itself gives every guest the same ones, and two may be joined.
mac_of() {
  local sum
  sum=$(printf '%s' "$name" | cksum)
  printf '52:54:00:%02x:%02x:%02x' "$((${sum%% *} >> 8 & 255))" "$((${sum%% *} & 255))" "$1"
}

need_memory() {
  local available_mib
  available_mib=$(awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo)
  ((available_mib >= memory_mib + emulator_mib)) ||
    die "$available_mib MiB of memory are available of $((memory_mib + emulator_mib)) that the guest wants: --memory gives it less" 3
}

# netem's words for what one guest sends; the queue holds what is under way at 10 Gb/s.
netem_words() {
  local words
  ((rtt_us)) || return 0
  words="limit 200000 delay $((rtt_us / 2))us"
  if ((jitter_us)); then words+=" $((jitter_us / 2))us"; fi
  if ((loss_per_billion)); then words+=" loss $(awk "BEGIN { printf \"%.7f\", $loss_per_billion / 1e7 }")%"; fi
  if ((path_mbit)); then words+=" rate ${path_mbit}mbit"; fi
  echo "$words"
}

# What both sides see as one folder: /run/lab in the guest.
make_guest_folder() {
  local disk
  mkdir -p "$lab_dir/guest/jobs" "$lab_dir/guest/kept"
  cp "$here/guest.sh" "$lab_dir/guest/guest.sh"
  {
    printf 'guest_name=%q disks=%d nics=%d\n' "$name" "${#disks[@]}" "${#nics[@]}"
    # Two that are joined have one network.
    printf 'network=%q end=%d\n' "$(choose_name "${join:-$name}" && address 0 1 | cut -d . -f 1-2)" \
      "$((${#join} ? 2 : 1))"
    printf 'long_path=%q\n' "$(netem_words)"
  } >"$lab_dir/guest/settings"
  for disk in "${disks[@]}"; do
    attempt "the image of $disk cannot be made" truncate -s "${disk_mib}M" "$lab_dir/images/$disk"
  done
  mkfifo "$lab_dir/port.in" "$lab_dir/port.out"
}

# Sets `words`, all arguments of QEMU.
qemu_words() {
  local i drive throttle="" cpus=$((nodes * cores)) cpu=max,model-id=Emulated threads=multi
  # Processors that wait for one another burn what the others need, where this machine has fewer.
  (($(nproc) >= cpus)) || threads=single
  words=(-accel "tcg,thread=$threads,tb-size=512" -nodefaults -display none -monitor none -no-reboot
    -serial "file:$lab_dir/console" -pidfile "$lab_dir/pid" -name "linerate-$name"
    -smp "$cpus,sockets=$nodes,cores=$cores" -m "${memory_mib}M")
  if $visible; then
    words+=(-cpu "$cpu")
  else
    words+=(-cpu "$cpu,-hypervisor" -smbios "type=0,vendor=$guest_maker,version=1"
      -smbios "type=1,manufacturer=$guest_maker,product=emulated server" -smbios "type=2,manufacturer=$guest_maker"
      -smbios "type=3,manufacturer=$guest_maker" -smbios "type=4,manufacturer=$guest_maker"
      -smbios "type=17,manufacturer=$guest_maker")
  fi
  if $iommu; then
    words+=(-M "q35,kernel-irqchip=split" -device "intel-iommu,intremap=on,caching-mode=on")
    append+=" intel_iommu=on iommu=nopt"
  else
    words+=(-M q35)
  fi
  for ((i = 0; i < nodes; i++)); do
    words+=(-object "memory-backend-ram,id=memory$i,size=$((memory_mib / nodes))M"
      -numa "node,nodeid=$i,cpus=$((i * cores))-$((i * cores + cores - 1)),memdev=memory$i")
  done
  if ((disk_rate)); then throttle=",throttling.bps-read=$((disk_rate * 1000000))"; fi
  # By default QEMU stops the whole guest where an image finds no room.
  for drive in "${disks[@]}"; do
    words+=(-drive "if=none,id=$drive,file=$lab_dir/images/$drive,format=raw,discard=unmap,werror=report,rerror=report$throttle")
  done
  nic_words
  words+=("${devices[@]}")
  share_words host / ,readonly=on
  share_words lab "$lab_dir/guest" ""
  share_words modules "$kernel_dir/lib/modules" ,readonly=on
  words+=(-device "virtio-serial-pci,bus=pcie.0" -chardev "pipe,id=port,path=$lab_dir/port"
    -device "virtserialport,chardev=port,name=lab" -kernel "$kernel_image" -initrd "$initrd"
    -append "console=ttyS0 quiet panic=-1 random.trust_cpu=on no_timer_check cryptomgr.notests$append")
}

# share_words TAG FOLDER OPTIONS
share_words() {
  words+=(-fsdev "local,id=$1,path=$2,security_model=none,multidevs=remap$3"
    -device "virtio-9p-pci,bus=pcie.0,fsdev=$1,mount_tag=$1")
}

# All NICs are at one switch; a guest that joins another has its own joined to that one's.
nic_words() {
  local nic link=$lab_dir/link server=on
  if [[ -n $join ]]; then link=$home/$join/link server=off; fi
  words+=(-netdev "stream,id=link,server=$server,addr.type=unix,addr.path=$link"
    -netdev "hubport,id=uplink,hubid=0,netdev=link")
  for nic in "${nics[@]}"; do words+=(-netdev "hubport,id=$nic,hubid=0"); done
}

# QEMU is a process of the lab's server side: `lab down` finds it there however `up` ended.
start_qemu() {
  local words
  qemu_words
  declare -p words >"$lab_dir/words"
  launch_qemu
}

launch_qemu() {
  (
    exec {lock}<&- # else nothing but QEMU's end would free the lab
    join_groups server
    cd /
    exec setsid qemu-system-x86_64 "${words[@]}" </dev/null >"$lab_dir/qemu.log" 2>&1
  ) &
  qemu=$!
  disown "$qemu" # what fails later waits for what it started, and QEMU does not end
}

# A power cut, and the same server again: its disks and /run/lab are as they were, all else is fresh.
command_reboot() {
  local boot_seconds words tries
  (($# == 0)) || wrong_use "\`lab reboot\` takes no “$1”"
  need_root reboot
  is_guest && [[ -e $lab_dir/up ]] || die "lab “$name” is no guest that is up" 2
  hold_lock || die "another lab command is at work on “$name”"
  kill -KILL "$(<"$lab_dir/qemu-pid")" 2>/dev/null || true
  for ((tries = 0; tries < 500; tries++)); do
    guest_lives || break
    sleep 0.02
  done
  rm -rf -- "$lab_dir/guest/up" "$lab_dir/guest/beat" "$lab_dir/guest/jobs" "$lab_dir/link" "$lab_dir/given-up"
  mkdir "$lab_dir/guest/jobs"
  # shellcheck disable=SC1091
  source "$lab_dir/words"
  # shellcheck disable=SC1091
  source "$lab_dir/qemu"
  launch_qemu
  wait_for_guest
}

# wait_for_guest: it is up when it says so. What panics or hangs is taken down by `undo_up`.
wait_for_guest() {
  local until=$((SECONDS + boot_seconds))
  while [[ ! -e $lab_dir/guest/up ]]; do
    lives "$qemu" || guest_failed "the guest ended while it booted"
    ((SECONDS < until)) || guest_failed "the guest was not up after $boot_seconds seconds (--boot-seconds)"
    sleep 0.05
  done
  echo "$qemu" >"$lab_dir/qemu-pid"
}

# guest_failed WHAT: the sentence, then the last words of QEMU and of the console.
guest_failed() {
  local last
  last=$(cat "$lab_dir/qemu.log" "$lab_dir/console" 2>/dev/null | tr -d '\r' | grep -v '^[[:space:]]*$') || true
  if [[ $last == *"Kernel panic"* ]]; then
    set -- "$1 (its kernel panicked)"
    # A list of calls follows, which says less than the first line.
    last="Kernel panic${last#*Kernel panic}"
    last=$(head -n 12 <<<"$last")
  fi
  last=$(tail -n 12 <<<"$last")
  die "$1; the last lines of its log:"$'\n'"${last:-(it printed nothing)}"
}

show_guest() {
  local i up_seconds
  up_seconds=$(<"$lab_dir/guest/up")
  echo "lab “$name” is up: a guest of QEMU, Linux $release, after $up_seconds s of its own time"
  printf '  %d nodes with %d cores each, %d MiB of memory, %d disks of %d MiB, %d NICs\n' "$nodes" "$cores" \
    "$memory_mib" "${#disks[@]}" "$disk_mib" "${#nics[@]}"
  echo "  /run/lab there is $lab_dir/guest here; all else that is written there is gone with the guest"
  if ((rtt_us)); then echo "  half of a long way to the other guest: $(path_words)"; fi
  for i in "${notes[@]}"; do echo "  as far as QEMU goes: $i"; done
}

# Fills the variables of command_up_qemu.
parse_qemu_options() {
  local option value chosen=linerate
  while (($#)); do
    option=$1
    shift
    case $option in
      -h | --help) usage && exit 0 ;;
      --qemu)
        if (($#)) && [[ $1 != -* ]]; then machine=$1 && shift; fi
        continue
        ;;
      --visible-hypervisor) visible=true && continue ;;
      --iommu) iommu=true && continue ;;
      --qemu=*) machine=${option#*=} && continue ;;
      --*=*) value=${option#*=} option=${option%%=*} ;;
      --*) (($#)) || wrong_use "$option wants a value"; value=$1; shift ;;
      *) wrong_use "\`lab up --qemu\` takes no “$option”" ;;
    esac
    case $option in
      --name) chosen=$value ;;
      --memory)
        memory_mib=$(mebibytes "$value")
        ((memory_mib >= 512)) || wrong_use "a guest wants 512M of memory or more"
        ;;
      --disk-size) disk_mib=$(mebibytes "$value") ;;
      --disk-rate) disk_rate=$(number "$value" 100000 "rate of disks") ;;
      --boot-seconds) boot_seconds=$(number "$value" 3600 "number of seconds") ;;
      --kernel-options) append=" $value" ;;
      --join) join=$value ;;
      --rtt | --jitter | --loss | --rate) path_option "$option" "$value" ;;
      *) wrong_use "\`lab up --qemu\` has no option $option" ;;
    esac
  done
  check_path
  [[ -r $machine ]] || wrong_use "$machine cannot be read; name a machine file"
  if [[ -n $join ]]; then
    [[ $join != "$chosen" ]] || wrong_use "a guest cannot join itself"
    choose_name "$join"
    is_guest && [[ -e $lab_dir/up ]] || die "lab “$join” is no guest that is up, which --join wants" 3
  fi
  choose_name "$chosen"
}
