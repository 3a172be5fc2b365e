# shellcheck shell=bash
# Disks: an image, a loop device, a file system and a data file each; the images lie in memory where there is enough.

# make_disks FS FILE_MIB SPEED…: all at once, since each waits for its own device.
make_disks() {
  local fs=$1 file_mib=$2 i pids=() failed=()
  shift 2
  local mib=$(($# * $(image_mib "$file_mib")))
  make_store "$((mib + pool_mib + (shared ? mib / 8 + 256 : 0)))"
  make_pool
  if ((shared)); then make_base "$((mib + mib / 16 + 192))"; fi
  if is_array "$fs"; then
    make_array "$fs" "$file_mib" "$#"
    rm -f "$lab_dir/images/pool"
    return
  fi
  for ((i = 0; i < $#; i++)); do
    make_disk "$i" "$fs" "$file_mib" 2>"$lab_dir/error$i" &
    pids+=($!)
  done
  for i in "${!pids[@]}"; do
    wait "${pids[i]}" || failed+=("$i")
  done
  if ((${#failed[@]})); then
    die "disk${failed[0]}: $(tail -n 1 "$lab_dir/error${failed[0]}" | sed 's/^lab: //') (${#failed[@]} of $# disks failed)"
  fi
  rm -f "$lab_dir"/error* "$lab_dir/images/pool"
}

# mkfs.xfs makes nothing below 300 MB; the log takes 64 MiB of it. Images are sparse: only what is written takes room.
image_mib() {
  local mib=$(($1 + $1 / 16 + 96))
  echo "$((mib > 320 ? mib : 320))"
}

# make_store MIB: where the images lie: memory if twice as much is free, else a directory under TMPDIR. The place is
# written down before it is made, so that `down` finds it however `up` ended.
make_store() {
  local available_kb
  available_kb=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)
  if (($1 * 2 * 1024 < available_kb)); then
    mkdir "$lab_dir/images"
    attempt "a file system in memory cannot be mounted" \
      mount -t tmpfs -o "size=$(($1 + 16))m,mode=0700,nosuid,nodev" "$group" "$lab_dir/images"
    return
  fi
  local store=${TMPDIR:-/tmp}/linerate-lab-$name
  printf '%s\n' "$store" >"$lab_dir/store"
  mkdir -m 0700 "$store" 2>/dev/null || { rm "$lab_dir/store"; die "$store cannot be made: is it there already? Remove it or set TMPDIR"; }
  ln -s "$store" "$lab_dir/images"
}

# make_base MIB: one device with a file system, on which the disks' images will lie, so that all of them share its speed.
make_base() {
  local image device
  image=$(readlink -f "$lab_dir/images")/base
  attempt "the image below all disks cannot be made" truncate -s "$1M" "$image"
  device=$(losetup -f --show "$image") || die "no loop device could be had from /dev/loop-control"
  attempt "mkfs.xfs failed on $device" mkfs.xfs -q -K "$device"
  echo "$device" >"$lab_dir/device-base"
  mkdir "$lab_dir/base"
  attempt "$device cannot be mounted" mount -t xfs -o noatime,nosuid,nodev "$device" "$lab_dir/base"
}

throttle_base() {
  if (($1)); then limit_disk "$(<"$lab_dir/device-base")" "$1" 0; fi
}

# make_disk I FS FILE_MIB; the last line on stderr says why it failed.
make_disk() {
  local mountpoint=$lab_dir/disk$1 device
  make_device "$1" "$3"
  device=$(<"$lab_dir/device$1")
  attempt "mkfs.$2 failed on $device" make_file_system "$2" "$device"
  mkdir "$mountpoint"
  attempt "$device cannot be mounted" mount -t "$2" -o noatime,nosuid,nodev "$device" "$mountpoint"
  fill "$mountpoint/data" "$3" "$1"
  sync -f "$mountpoint"
}

# make_device I FILE_MIB: an image and its loop device, which is written down.
make_device() {
  local image device direct=()
  image=$(readlink -f "$lab_dir/images")/disk$1
  # On a shared device past its page cache, which would answer otherwise.
  if ((shared && $1 < shared_disks)); then image=$lab_dir/base/disk$1 direct=(--direct-io=on); fi
  attempt "its image cannot be made" truncate -s "$(image_mib "$2")M" "$image"
  device=$(losetup -f --show "${direct[@]}" "$image") || die "no loop device could be had from /dev/loop-control"
  echo "$device" >"$lab_dir/device$1"
}

make_file_system() {
  case $1 in
    xfs) mkfs.xfs -q -K "$2" ;;
    ext4) mkfs.ext4 -q -b 4096 -m 0 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$2" ;;
    btrfs) mkfs.btrfs -q -K "$2" ;;
  esac
}

# One file system over all disks.
is_array() {
  [[ $1 == btrfs-raid* ]]
}

# make_array FS FILE_MIB COUNT: data and metadata at that level over all devices, mounted as disk0.
make_array() {
  local level=${1#btrfs-} i devices=() options=noatime,nosuid,nodev
  for ((i = 0; i < $3; i++)); do
    make_device "$i" "$2"
    devices+=("$(<"$lab_dir/device$i")")
    options+=,device=${devices[i]} # so that nothing has to have looked for its members
  done
  attempt "mkfs.btrfs failed on ${devices[*]}" mkfs.btrfs -q -K -d "$level" -m "$level" "${devices[@]}"
  mkdir "$lab_dir/disk0"
  attempt "${devices[0]} cannot be mounted" mount -t btrfs -o "$options" "${devices[0]}" "$lab_dir/disk0"
  fill "$lab_dir/disk0/data" "$2" 0
  sync -f "$lab_dir/disk0"
}

# The bytes that the data files are made of: random ones, so that nothing on the way can compress them or leave them out.
# A prime number of MiB: no power of two of blocks finds the same bytes again.
readonly pool_mib=31

make_pool() {
  local pool=$lab_dir/images/pool
  (random_bytes >"$pool") # not this shell's own output: it would hold the file open while it takes the lab down
  [[ $(stat -c %s "$pool") == $((pool_mib << 20)) ]] || die "$pool cannot be written"
}

random_bytes() {
  if command -v openssl >/dev/null; then
    head -c "${pool_mib}M" /dev/zero | openssl enc -aes-128-ctr -nosalt -K 6c696e6572617465 -iv 00 2>/dev/null
  else
    head -c "${pool_mib}M" /dev/urandom
  fi
}

# fill FILE MIB DISK: the pool over and over, each disk from a place of its own. Written past the page cache, so that
# every read later reaches the device; a file that was only allocated would be answered without any I/O.
fill() {
  local at=0 skip=$(($3 * 3 % pool_mib)) count
  while ((at < $2)); do
    [[ ! -e $lab_dir/stop ]] || die "stopped"
    count=$((pool_mib - skip < $2 - at ? pool_mib - skip : $2 - at))
    attempt "$1 cannot be written" dd if="$lab_dir/images/pool" of="$1" bs=1M skip="$skip" seek="$at" count="$count" \
      oflag=direct conv=notrunc status=none
    at=$((at + count)) skip=0
  done
}

# throttle_disks REQUESTS_PER_SECOND SPEED…: last of all, so that `up` itself is not slowed.
throttle_disks() {
  local i=0 speed requests=$1
  shift
  for speed in "$@"; do
    limit_disk "$(<"$lab_dir/device$i")" "$speed" "$requests"
    i=$((i + 1))
  done
}

# lab_loops disk|base: loop devices on such an image of this lab, whatever else of it is left.
lab_loops() {
  local store
  store=$(cat "$lab_dir/store" 2>/dev/null) || store=$lab_dir/images
  losetup --list --noheadings --raw --output NAME,BACK-FILE 2>/dev/null |
    awk -v a="$store/$1" -v b="$lab_dir/images/$1" -v c="$lab_dir/base/$1" \
      'index($2, a) == 1 || index($2, b) == 1 || index($2, c) == 1 { print $1 }'
}

# Mount points of this lab, the last mounted first.
lab_mounts() {
  awk -v dir="$lab_dir/" 'index($5, dir) == 1 { print $5 }' /proc/self/mountinfo | tac
}

remove_disks() {
  local place
  for place in $(lab_mounts); do
    [[ $place == "$lab_dir/images" || $place == "$lab_dir/base" ]] || unmount "$place"
  done
  remove_loops disk
  for place in $(lab_mounts); do
    [[ $place == "$lab_dir/images" ]] || unmount "$place"
  done
  remove_loops base
  for place in $(lab_mounts); do unmount "$place"; done
  if [[ -s $lab_dir/store ]]; then rm -rf --one-file-system -- "$(<"$lab_dir/store")"; fi
}

# Tries for a second; then detaches, so that the rest goes as soon as its last user does.
unmount() {
  local tries
  for ((tries = 0; tries < 50; tries++)); do
    umount "$1" 2>/dev/null && return 0
    sleep 0.02
  done
  umount --lazy "$1" || return 0
  echo "lab: $1 was in use by a process outside the lab; it goes when that ends" >&2
}

# remove_loops disk|base; the kernel lets go of a loop device a moment after it was told to.
remove_loops() {
  local tries device
  for device in $(lab_loops "$1"); do losetup -d "$device" 2>/dev/null || true; done
  for ((tries = 0; tries < 50; tries++)); do
    [[ -n $(lab_loops "$1") ]] || return 0
    sleep 0.02
  done
}
