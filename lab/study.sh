# shellcheck shell=bash
# A study: the same `linerate disk` over several file systems, each on disks of the same speed, and the comparison of what came of it.
# With --qemu: over those that this kernel may lack, and arrays, one after another on the drives of one guest.

# What is measured where nothing is told after `--`.
readonly study_job=(--workers 1,2,4 --queue-depth 4 --transfer 1M --pattern sequential --access read,write --amount 16M --seconds 2)
# Once each: NILFS2 without its cleaner keeps all that was written.
readonly guest_study_job=(--workers 1,2 --queue-depth 4 --transfer 1M --pattern sequential --access read,write --amount 32M)
# Which chunk: one request at a time, so large that it could be on all disks (D1.3, §9.2).
readonly chunk_study_job=(--workers 1 --queue-depth 1 --transfer 16M --pattern sequential --access read --amount 64M)

command_study() {
  local disks_words=4x50 disks=() rounds=5 output=linerate-study job=() emulated=false
  layouts=() study_labs=() server="" # not local: what takes the labs down runs when this function is gone
  parse_study_options "$@"
  need_root study
  linerate=$(find_linerate)
  [[ ! -e $output ]] || die "$output is there already; name another folder with --output DIR" 2
  study=linerate-study-$$
  trap 'end_study' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  local round
  if $emulated; then up_study_guest; else up_study_labs; fi
  mkdir -p "$output" || die "$output cannot be made"
  for ((round = 1; round <= rounds; round++)); do
    visit_layouts "$round"
  done
  show_comparison
}

# All are up at once and are visited in turn, so that a machine that gets slower gets slower for all of them.
up_study_labs() {
  local layout
  for layout in "${layouts[@]}"; do
    study_labs+=("$study-$layout")
    "$here/lab" up --name "$study-$layout" --fs "$layout" --disks "$disks_words" --nics 0 --file-size 1M >/dev/null ||
      die "the lab with $layout cannot be made" "$?"
  done
}

# mkfs.xfs makes nothing below 300 MB. Chunks are those of an array over all drives, which are held to one rate: without
# one a drive of an emulator takes no time, and it would not matter how many are at work.
up_study_guest() {
  local guest=(--qemu --disk-size 512M)
  need_layout_tools
  study_labs=("$study")
  if is_chunk_study; then
    server=$(mktemp)
    printf '[processor]\ncores = 2\n[[disk]]\nname = "nvme"\ncount = %d\non = "node0"\npcie = "4.0 x4"\nread = "%dMB/s"\n' \
      "${#disks[@]}" "${disks[0]}" >"$server"
    guest=(--qemu "$server" --disk-rate "${disks[0]}")
  fi
  "$here/lab" up --name "$study" "${guest[@]}" >/dev/null || die "the guest of the study cannot be made" "$?"
}

is_chunk_study() {
  [[ ${layouts[0]} == md-raid0-* ]]
}

# The guest has this machine's programs.
need_layout_tools() {
  local missing=() layout tool package wanted=(mkfs.xfs:xfsprogs wipefs:util-linux)
  for layout in "${layouts[@]}"; do
    case $layout in
      ext4) wanted+=(mkfs.ext4:e2fsprogs) ;;
      btrfs) wanted+=(mkfs.btrfs:btrfs-progs) ;;
      nilfs2) wanted+=(mkfs.nilfs2:nilfs-tools) ;;
      md-*) wanted+=(mdadm:mdadm) ;;
      lvm) wanted+=(lvcreate:lvm2) ;;
    esac
  done
  for tool in "${wanted[@]}"; do
    package=${tool#*:} tool=${tool%:*}
    command -v "$tool" >/dev/null || missing+=("$tool (apt install $package)")
  done
  ((${#missing[@]} == 0)) || die "the study needs $(joined "${missing[@]}"), which this machine lacks" 3
}

# Begins with another layout in each round: none always has the quiet moment after the same one.
visit_layouts() {
  local at layout count=${#layouts[@]} status
  for ((at = 0; at < count; at++)); do
    layout=${layouts[(at + $1 - 1) % count]}
    echo "lab: round $1 of $rounds, $layout" >&2
    status=0
    if $emulated; then measure_in_guest "$1"; else measure_in_lab "$1"; fi
    ((status <= 1)) || die "\`linerate disk\` failed on $layout" "$status"
  done
}

measure_in_lab() {
  local sources
  mapfile -t sources < <("$here/lab" mounts --name "$study-$layout" | sed 's/^/--source=/')
  "$here/lab" run --name "$study-$layout" -- "$linerate" disk "${sources[@]}" "${job[@]}" --repeats 1 --name "$layout" \
    --output "$output/$layout-$1" >/dev/null || status=$?
}

# What it was measured on is part of its name.
measure_in_guest() {
  local run=("$here/lab" run --name "$study" --)
  "${run[@]}" bash "$here/study_layout.sh" make "$layout" || die "$layout cannot be made in the guest"
  "${run[@]}" "$linerate" disk --source /run/study "${job[@]}" --repeats 1 --name "$layout (QEMU)" \
    --output "/run/lab/kept/$layout-$1" >/dev/null || status=$?
  "${run[@]}" bash "$here/study_layout.sh" remove "$layout" || die "$layout cannot be taken away in the guest"
  cp -r "$home/$study/guest/kept/$layout-$1" "$output/" || die "the result cannot be copied to $output"
}

# The runs of one layout are repeats of one another.
show_comparison() {
  local layout round runs=()
  for layout in "${layouts[@]}"; do
    for ((round = 1; round <= rounds; round++)); do runs+=("$output/$layout-$round"); done
  done
  if $emulated; then
    echo "On a server that QEMU emulates: what works, and how layouts compare within this guest. No rate here is a disk's."
  fi
  "$linerate" compare --join "${runs[@]}" --output "$output/comparison"
}

end_study() {
  local status=$? lab
  trap - EXIT
  trap '' INT TERM HUP
  if [[ $server ]]; then rm -f -- "$server"; fi
  for lab in "${study_labs[@]}"; do "$here/lab" down --name "$lab" || true; done
  exit "$status"
}

# Fills the variables of command_study.
parse_study_options() {
  local option value taken layout
  while (($#)); do
    [[ $1 == -- ]] && shift && job=("$@") && break
    [[ $1 == --qemu ]] && emulated=true && shift && continue
    take_option "lab study" "$@"
    shift "$taken"
    case $option in
      --fs) IFS=, read -r -a layouts <<<"$value" ;;
      --disks) disks_words=$value ;;
      --rounds) rounds=$(number "$value" 100 "number of rounds"); ((rounds >= 1)) || wrong_use "a study has one round or more" ;;
      --output) output=$value ;;
      *) wrong_use "\`lab study\` has no option $option" ;;
    esac
  done
  value=$(speeds "$disks_words" 100000 disks)
  mapfile -t disks <<<"$value"
  if ((${#layouts[@]} == 0)); then
    layouts=(xfs ext4 btrfs)
    if $emulated; then layouts=(xfs ext4 btrfs nilfs2 md-raid0 md-raid1 lvm); fi
  fi
  if [[ ${layouts[*]} == chunks ]]; then list_chunks; fi
  ((${#layouts[@]} >= 2)) || wrong_use "a study wants two layouts or more, like --fs xfs,btrfs"
  for layout in "${layouts[@]}"; do
    if $emulated; then check_guest_layout "$layout"; else check_file_system "$layout" "${#disks[@]}"; fi
  done
  (($(printf '%s\n' "${layouts[@]}" | sort -u | wc -l) == ${#layouts[@]})) || wrong_use "“${layouts[*]}” has a layout twice"
  if ((${#job[@]} == 0)); then
    job=("${study_job[@]}")
    if $emulated; then job=("${guest_study_job[@]}"); fi
    if is_chunk_study; then job=("${chunk_study_job[@]}"); fi
  fi
}

# Those that D1.3, §9.2, lists, and one with which a request is on half of the disks.
list_chunks() {
  local kib
  layouts=()
  for ((kib = 4; kib * ${#disks[@]} <= 2 * 16384; kib *= 2)); do layouts+=("md-raid0-${kib}k"); done
}

check_guest_layout() {
  if is_chunk_study; then
    [[ $1 =~ ^md-raid0-[1-9][0-9]*k$ ]] || wrong_use "“$1” is no chunk like md-raid0-512k: they are compared with one another"
    ((${#disks[@]} >= 2 && disks[0] > 0)) || wrong_use "chunks want two disks or more with a rate, like --disks 8x8"
    return
  fi
  case $1 in
    xfs | ext4 | btrfs | nilfs2 | md-raid0 | md-raid1 | lvm) ;;
    *) wrong_use "“$1” is no layout of a guest: xfs, ext4, btrfs, nilfs2, md-raid0, md-raid1 or lvm" ;;
  esac
}
