#!/usr/bin/env bash
# `lab study --qemu`, in the guest: `study_layout.sh make|remove LAYOUT` puts a layout on its first NVMe drives (on all:
# md-raid0-512k, of this chunk) and mounts it, or takes it away. There is no udev: what it would do, the tools are told to do themselves.
set -euo pipefail

readonly place=/run/study
drives=(/dev/nvme0n1 /dev/nvme1n1)
[[ $2 != md-raid0-* ]] || drives=(/dev/nvme*n1)
readonly lvm_settings='devices { obtain_device_list_from_udev = 0 use_devicesfile = 0 filter = [ "a|/dev/nvme[01]n1|", "r|.*|" ] }
  activation { udev_sync = 0 udev_rules = 0 monitoring = 0 } backup { backup = 0 archive = 0 }'

# quietly COMMAND WORD…: what it says is shown where it fails.
quietly() {
  "$@" >/run/study-says 2>&1 || { cat /run/study-says >&2; return 1; }
}

# lvm COMMAND WORD…
lvm() {
  quietly "$1" --config "$lvm_settings" --yes "${@:2}"
}

# Sets `device` and `fs`: arrays have XFS on them.
make_layout() {
  fs=xfs
  case $1 in
    md-raid0 | md-raid1)
      modprobe "${1#md-}"
      mdadm --quiet --create /dev/md0 --run --assume-clean --metadata=1.2 --level="${1#md-raid}" --raid-devices=2 "${drives[@]}"
      device=/dev/md0
      ;;
    md-raid0-*)
      modprobe raid0
      chunk=${1##*-}
      mdadm --quiet --create /dev/md0 --run --metadata=1.2 --level=0 --chunk="${chunk%k}" --raid-devices="${#drives[@]}" "${drives[@]}"
      device=/dev/md0
      ;;
    lvm)
      modprobe dm_mod
      lvm pvcreate "${drives[@]}"
      lvm vgcreate study "${drives[@]}"
      lvm lvcreate --type striped --stripes 2 --stripesize 64k --wipesignatures n --extents 100%FREE --name striped study
      device=/dev/mapper/study-striped
      ;;
    *) device=${drives[0]} fs=$1 ;;
  esac
}

format() {
  modprobe --quiet "$fs" || true
  case $fs in
    xfs) quietly mkfs.xfs -q -f -K "$device" ;;
    ext4) quietly mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$device" ;;
    btrfs) quietly mkfs.btrfs -q -f -K "$device" ;;
    nilfs2) quietly mkfs.nilfs2 -q -f -K "$device" ;;
  esac
}

case $1 in
  make)
    make_layout "$2"
    format
    mkdir -p "$place"
    # NILFS2's own mount would leave its cleaner running.
    mount --internal-only -t "$fs" -o noatime "$device" "$place"
    ;;
  remove)
    umount "$place"
    case $2 in
      md-*) mdadm --quiet --stop /dev/md0 && mdadm --quiet --zero-superblock "${drives[@]}" ;;
      lvm) lvm vgremove --force study && lvm pvremove "${drives[@]}" ;;
    esac
    wipefs --quiet --all "${drives[@]}"
    ;;
esac
