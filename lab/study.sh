# shellcheck shell=bash
# A study: the same `linerate disk` over several file systems, each on disks of the same speed, and the comparison of what came of it.

# What is measured where nothing is told after `--`.
readonly study_job=(--workers 1,2,4 --queue-depth 4 --transfer 1M --pattern sequential --access read,write --amount 16M --seconds 2)

# All layouts are up at once and are visited in turn, so that a machine that gets slower gets slower for all of them.
command_study() {
  local disks_words=4x50 rounds=5 output=linerate-study job=()
  layouts=(xfs ext4 btrfs) # not local: what takes the labs down runs when this function is gone
  parse_study_options "$@"
  need_root study
  linerate=$(find_linerate)
  [[ ! -e $output ]] || die "$output is there already; name another folder with --output DIR" 2
  study=linerate-study-$$
  trap 'end_study' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  local layout round
  for layout in "${layouts[@]}"; do
    "$here/lab" up --name "$study-$layout" --fs "$layout" --disks "$disks_words" --nics 0 --file-size 1M >/dev/null ||
      die "the lab with $layout cannot be made" "$?"
  done
  mkdir -p "$output" || die "$output cannot be made"
  for ((round = 1; round <= rounds; round++)); do
    visit_layouts "$round"
  done
  show_comparison
}

# Begins with another layout in each round: none always has the quiet moment after the same one.
visit_layouts() {
  local at layout count=${#layouts[@]} sources status
  for ((at = 0; at < count; at++)); do
    layout=${layouts[(at + $1 - 1) % count]}
    echo "lab: round $1 of $rounds, $layout" >&2
    mapfile -t sources < <("$here/lab" mounts --name "$study-$layout" | sed 's/^/--source=/')
    status=0
    "$here/lab" run --name "$study-$layout" -- "$linerate" disk "${sources[@]}" "${job[@]}" --repeats 1 --name "$layout" \
      --output "$output/$layout-$1" >/dev/null || status=$?
    ((status <= 1)) || die "\`linerate disk\` failed on $layout" "$status"
  done
}

# The runs of one layout are repeats of one another.
show_comparison() {
  local layout round runs=()
  for layout in "${layouts[@]}"; do
    for ((round = 1; round <= rounds; round++)); do runs+=("$output/$layout-$round"); done
  done
  "$linerate" compare --join "${runs[@]}" --output "$output/comparison"
}

end_study() {
  local status=$? layout
  trap - EXIT
  trap '' INT TERM HUP
  for layout in "${layouts[@]}"; do "$here/lab" down --name "$study-$layout" || true; done
  exit "$status"
}

# Fills the variables of command_study.
parse_study_options() {
  local option value taken layout disks
  while (($#)); do
    [[ $1 == -- ]] && shift && job=("$@") && break
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
  ((${#layouts[@]} >= 2)) || wrong_use "a study wants two layouts or more, like --fs xfs,btrfs"
  for layout in "${layouts[@]}"; do check_file_system "$layout" "${#disks[@]}"; done
  (($(printf '%s\n' "${layouts[@]}" | sort -u | wc -l) == ${#layouts[@]})) || wrong_use "“${layouts[*]}” has a layout twice"
  ((${#job[@]})) || job=("${study_job[@]}")
}
