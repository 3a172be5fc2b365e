# shellcheck shell=bash
# The kernel of a guest: Debian's own, unpacked and not installed; and the memory disk that it begins with.

readonly kernels=/var/cache/linerate-lab
readonly kernel_package=linux-image-amd64
# What the guest needs before it sees the host's root, and the drivers of what QEMU builds: found over 9p, they come
# five seconds later.
readonly boot_modules=(virtio_pci virtio_console 9pnet_virtio 9p overlay)
readonly driver_modules=(nvme sd_mod ahci megaraid_sas e1000e)
# The package has 400 MB; what no server has is left out.
readonly unwanted_modules=(drivers/gpu drivers/media drivers/net/wireless drivers/staging drivers/iio drivers/input
  drivers/hid drivers/bluetooth drivers/isdn drivers/video drivers/comedi sound net/bluetooth net/mac80211 net/wireless)

# Sets `kernel_dir` (boot/vmlinuz-*, lib/modules), `kernel_image` and `release`: LINERATE_LAB_KERNEL, else the cache, else a download.
find_kernel() {
  local images
  kernel_dir=${LINERATE_LAB_KERNEL:-}
  if [[ -z $kernel_dir ]]; then
    kernel_dir=$kernels/kernel
    [[ -e $kernel_dir/complete ]] || take_kernel
  fi
  images=("$kernel_dir"/boot/vmlinuz-*)
  kernel_image=${images[0]}
  [[ -e ${images[0]} ]] ||
    die "there is no boot/vmlinuz-* in $kernel_dir: LINERATE_LAB_KERNEL names an unpacked kernel package" 3
  release=${images[0]##*/vmlinuz-}
  [[ -d $kernel_dir/lib/modules/$release ]] ||
    die "$kernel_dir has no lib/modules/$release: the kernel package is not complete" 3
  [[ ! -e $kernel_dir/boot/vmlinux-$release ]] || kernel_image=$kernel_dir/boot/vmlinux-$release
}

# take_kernel: half an unpacked package counts as none.
take_kernel() {
  local work=$kernels/new.$$ package
  [[ ${LINERATE_INSTALL:-1} != 0 ]] ||
    die "a guest needs the package $kernel_package: \`lab kernel\` fetches it (LINERATE_INSTALL=0 forbids it here)" 3
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
    die "a guest needs a distribution's kernel: without apt, LINERATE_LAB_KERNEL names the folder of an unpacked one" 3
  mkdir -p "$kernels" || die "$kernels cannot be made"
  need_room "$kernels" 700
  rm -rf -- "$kernels"/new.*
  mkdir "$work"
  echo "lab: fetching $kernel_package and unpacking it in $kernels (70 MB, once)" >&2
  fetch_kernel "$work" || { rm -rf -- "$work"; die "the package $kernel_package cannot be downloaded: $fetch_error" 3; }
  package=("$work"/*.deb)
  unpack_kernel "${package[0]}" "$work/kernel" ||
    { rm -rf -- "$work"; die "${package[0]##*/} cannot be unpacked: is there room in $kernels?"; }
  touch "$work/kernel/complete"
  rm -rf -- "$kernels/kernel"
  mv "$work/kernel" "$kernels/kernel"
  rm -rf -- "$work"
}

# fetch_kernel FOLDER: the package that the empty one stands for; the lists may be missing or old.
fetch_kernel() {
  local name words=(-q -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 -o Acquire::Retries=1
    -o APT::Sandbox::User=root)
  for _ in 1 2; do
    name=$(apt-cache depends "$kernel_package" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p')
    name=${name%%$'\n'*}
    fetch_error="apt knows no such package"
    if [[ -n $name ]]; then
      fetch_error=$(cd -- "$1" && apt-get "${words[@]}" download "$name" 2>&1 >/dev/null) && return
    fi
    apt-get "${words[@]}" update </dev/null >/dev/null 2>&1 || true
  done
  fetch_error=${fetch_error##*$'\n'}
  return 1
}

unpack_kernel() {
  local part words=()
  for part in "${unwanted_modules[@]}"; do words+=("--exclude=*/kernel/$part"); done
  mkdir "$2" || return
  dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" "${words[@]}" ./boot ./lib/modules || return
  release=$(basename "$2"/lib/modules/*)
  depmod -b "$2" "$release" 2>/dev/null || return
  plain_kernel "$2/boot/vmlinuz-$release" "$2/boot/vmlinux-$release" || rm -f "$2/boot/vmlinux-$release"
}

# plain_kernel FROM TO: the ELF file in it, which QEMU starts by itself; an emulated processor would take seconds to
# unpack it. Where it lies: https://docs.kernel.org/arch/x86/boot.html (setup_sects, payload_offset, payload_length).
plain_kernel() {
  local sectors offset length unpack
  sectors=$(od -An -tu1 -j 497 -N 1 "$1") offset=$(od -An -tu4 -j 584 -N 4 "$1") length=$(od -An -tu4 -j 588 -N 4 "$1")
  offset=$(((sectors + 1) * 512 + offset + 1))
  for unpack in xz gzip zstd lz4; do
    command -v "$unpack" >/dev/null || continue
    # The length of what was packed follows it, which some of them call an error.
    (set +o pipefail && tail -c "+$offset" "$1" | head -c "$length" | "$unpack" -dc >"$2" 2>/dev/null) || true
    [[ $(head -c 4 "$2" | tr -d '\177') == ELF ]] && return
  done
  return 1
}

# need_room FOLDER MIB [REMEDY]
need_room() {
  local free
  free=$(df --output=avail -m "$1" | tail -n 1)
  free=$((free)) # df pads it
  ((free >= $2)) || die "$1 has $free MiB free and $2 are needed: ${3:-make room}" 3
}

# Sets `initrd`; it is made again where its first program has changed.
make_initrd() {
  local sum work module
  sum=$(cat "$here/guest_init.sh" "${BASH_SOURCE[0]}" | cksum)
  initrd=$kernel_dir/initrd.${sum%% *}
  [[ ! -e $initrd ]] || return 0
  work=$(mktemp -d "$lab_dir/initrd.XXXXXX")
  mkdir "$work"/{bin,modules,proc,sys,dev}
  cp "$(command -v busybox)" "$work/bin/busybox"
  for module in sh mount insmod mkdir chroot sleep poweroff; do ln -s busybox "$work/bin/$module"; done
  cp "$here/guest_init.sh" "$work/init"
  chmod +x "$work/init"
  modules_of "${boot_modules[@]}" >"$work/needed" || die "the kernel in $kernel_dir lacks one of ${boot_modules[*]}" 3
  for module in "${driver_modules[@]}"; do modules_of "$module" >>"$work/needed" || true; done
  awk '$1 == "insmod" && !seen[$2]++ { print $2 }' "$work/needed" >"$work/list"
  while read -r module; do
    plain_module "$module" "$work/modules/$(basename "${module%.ko*}").ko"
    echo "$(basename "${module%.ko*}").ko" >>"$work/modules/order"
  done <"$work/list"
  # Not compressed: plain emulation takes longer to unpack it than to read it.
  (cd -- "$work" && find . | busybox cpio -o -H newc 2>/dev/null) >"$lab_dir/initrd"
  mv "$lab_dir/initrd" "$initrd"
  rm -rf -- "$work"
}

modules_of() {
  modprobe -d "$kernel_dir" -S "$release" --show-depends --all "$@" 2>/dev/null
}

# plain_module FROM TO: some distributions compress them.
plain_module() {
  case $1 in
    *.xz) xz -dc "$1" >"$2" ;;
    *.zst) zstd -dc "$1" >"$2" ;;
    *) cp "$1" "$2" ;;
  esac
}

command_kernel() {
  (($# == 0)) || wrong_use "\`lab kernel\` takes no “$1”"
  need_root kernel
  need_qemu_tools
  find_kernel
  echo "$kernel_dir: Linux $release"
}
