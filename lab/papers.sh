# shellcheck shell=bash
# The five documents' experiments in a lab, one after another: `linerate reproduce` with what the lab has in the place of
# the papers' parts. The pages are what is looked at; rates are the lab's.

# Twelve disks, as CUNY had; three NICs, as SARA had, one of them slower.
readonly papers_lab=(--disks 12x100 --nics 1000,1000,700 --file-size 300M)

command_papers() {
  local output=linerate-papers option value taken linerate key paper began status failed=0
  while (($#)); do
    take_option "lab papers" "$@"
    shift "$taken"
    [[ $option == --output ]] || wrong_use "\`lab papers\` has no option $option"
    output=$value
  done
  need_root papers
  linerate=$(find_linerate)
  [[ ! -e $output ]] || die "$output is there already; name another folder with --output DIR" 2
  choose_name "papers-$$"
  demo_dir=$(mktemp -d)
  trap end_papers EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  "$here/lab" up --name "$name" "${papers_lab[@]}" >/dev/null || die "the lab of the papers cannot be made" "$?"
  # The experiments write files of their own.
  "$here/lab" sources --name "$name" | xargs rm -f --
  mkdir -p "$output/volume" || die "$output cannot be made"
  read_state
  (run_in peer "$linerate" agent --listen "0.0.0.0:$agent_port" --key-file "$demo_dir/key") \
    >"$demo_dir/agent.log" 2>&1 </dev/null &
  agent=$!
  wait_for_agent
  key=$(<"$demo_dir/key")
  export LINERATE_KEY=$key
  for paper in d1.1 d1.3 uv300 40g openbench; do
    began=$SECONDS status=0
    parts_of "$paper" "$output"
    (run_in server "$linerate" reproduce "$paper" "${parts[@]}" --html "$output/$paper.html") || status=$?
    echo "lab: $paper took $((SECONDS - began)) s" >&2
    # 1: some of its steps can only be planned.
    ((status <= 1)) || failed=$status
  done
  rm -rf -- "$output/volume"
  return "$failed"
}

# Sets `parts`, what the names in braces of a paper are here.
parts_of() {
  local mounts addresses i count=12
  mapfile -t mounts < <(command_mounts)
  mapfile -t addresses < <(command_address)
  # oblLoad wants a file of a gigabyte.
  if [[ $1 == openbench ]]; then mounts=("$2/volume"); count=0; fi
  parts=(--with "folder=${mounts[0]}" --with "volume=$2/volume" --with "device=$(<"$lab_dir/device0")")
  # Each source is read for as long as its amount takes: fewer take less.
  case $1 in d1.1) count=6 ;; 40g) count=4 ;; esac
  for ((i = 0; i < count; i++)); do parts+=(--with "disk=${mounts[i]}"); done
  for i in "${!addresses[@]}"; do
    parts+=(--with "nic=nic$i" --with "address=${addresses[i]}" --with "peer=${addresses[i]}:$agent_port")
  done
}

end_papers() {
  local status=$?
  trap - EXIT
  trap '' INT TERM HUP
  if [[ -n ${agent:-} ]]; then kill -TERM "$agent" 2>/dev/null || true; fi
  rm -rf -- "$demo_dir"
  "$here/lab" down --name "$name" >/dev/null || true
  exit "$status"
}
