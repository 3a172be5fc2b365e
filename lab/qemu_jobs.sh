# shellcheck shell=bash
# `lab run` in a guest: a job is a folder that both sides see. Its command runs in the host's present folder, as the
# guest sees it; what it prints is followed here, and its exit status is this command's.

# What of the caller's surroundings a command in the guest has.
readonly guest_variables="^(LINERATE[A-Z_]*|LANG|LC_[A-Z]+|TERM|PATH|RUST_[A-Z_]+|COLUMNS|NO_COLOR)="

run_in_guest() {
  local job watcher followers=() status
  [[ -e $lab_dir/qemu-pid ]] || die "lab “$name” is not up; \`lab up --qemu --name $name\` makes it"
  guest_lives || guest_is_gone
  job=$(mktemp -d "$lab_dir/guest/jobs/XXXXXXXX")
  job_command "$@" >"$job/command"
  job_files "$@" >"$job/files"
  : >"$job/stdout"
  : >"$job/stderr"
  echo "start ${job##*/}" >"$lab_dir/port.in"
  trap 'signal_job INT' INT
  trap 'signal_job TERM' TERM HUP
  (trap '' INT && wait_for_job "$job") &
  watcher=$!
  (trap '' INT && exec tail -c +1 -s 0.05 --pid="$watcher" -f "$job/stdout" 2>/dev/null) &
  followers+=($!)
  (trap '' INT && exec tail -c +1 -s 0.05 --pid="$watcher" -f "$job/stderr" >&2) 2>&2 &
  followers+=($!)
  while kill -0 "${followers[@]}" 2>/dev/null; do wait "${followers[@]}" || true; done
  guest_lives || [[ -e $job/status ]] || guest_is_gone
  status=$(cat "$job/status" 2>/dev/null) || status=143 # what follows the job was killed itself
  rm -rf -- "$job"
  return "$status"
}

# The guest's shell reads it: every word is quoted.
job_command() {
  local line
  printf 'cd -- %q 2>/dev/null || cd /\n' "$PWD"
  while IFS= read -r -d '' line; do
    [[ $line =~ $guest_variables ]] && printf 'export %s=%q\n' "${line%%=*}" "${line#*=}"
  done < <(env -0)
  printf 'export XDG_STATE_HOME=/run/lab/kept\n'
  printf 'exec --'
  printf ' %q' "$@"
  echo
}

# The guest keeps what it has read of the host's files: it forgets them where one that a command names has changed.
job_files() {
  local word
  for word in "$(type -P -- "$1" || true)" "$@" "${LINERATE:-}"; do
    if [[ -f $word ]]; then stat -L -c '%n %i %Y %s' -- "$(realpath -- "$word")"; fi
  done
}

wait_for_job() {
  local boot_seconds last_beat='' beat_at=$SECONDS looked_at=$SECONDS
  # shellcheck disable=SC1091
  source "$lab_dir/qemu"
  while [[ ! -e $1/status ]] && guest_lives; do
    guest_answers || give_guest_up
    sleep 0.1
  done
}

# The guest counts, in a file that both sides see; one that no longer does hangs. What stopped this process, too, is no
# hang of the guest's.
guest_answers() {
  local beat=''
  read -r beat 2>/dev/null <"$lab_dir/guest/beat" || true
  if [[ $beat != "$last_beat" ]] || ((SECONDS - looked_at > 5)); then last_beat=$beat beat_at=$SECONDS; fi
  looked_at=$SECONDS
  ((SECONDS - beat_at < boot_seconds))
}

give_guest_up() {
  echo "$boot_seconds" >"$lab_dir/given-up"
  kill -KILL "$(<"$lab_dir/qemu-pid")" 2>/dev/null || true
}

# signal_job NAME: to every process of the command; it decides what comes of it.
signal_job() {
  echo "signal ${job##*/} $1" >"$lab_dir/port.in"
}

guest_lives() {
  local process
  read -r process <"$lab_dir/qemu-pid" && lives "$process"
}

# lives PROCESS: it is there, and not just waiting for somebody to ask for its end. It is asked often: no program is
# started for it.
lives() {
  local state
  { read -r state <"/proc/$1/stat"; } 2>/dev/null && [[ ${state##*) } != Z* ]]
}

guest_is_gone() {
  [[ ! -e $lab_dir/given-up ]] ||
    guest_failed "the guest of “$name” did not answer for $(<"$lab_dir/given-up") seconds (--boot-seconds) and was switched off"
  guest_failed "the guest of “$name” has ended"
}
