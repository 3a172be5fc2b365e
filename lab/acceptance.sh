# shellcheck shell=bash
# shellcheck disable=SC2154 # `work` and `target` are of ./test, which takes this file in.
# `./test --thorough`: what is a matter of statistics, in all its rounds; `./test` takes one round of each.
#
# A call ends before 80 minutes; the next one continues with the round after the last, until the tree changes.
# What each test came to is in target/acceptance/NAME.json. Exit status: 0 all rounds passed, 1 some failed,
# 75 rounds are left.

# ROUNDS SECONDS PROGRAM TEST [NAME=VALUE]: SECONDS is what a round may take, so that none begins too late.
acceptance() {
  cat <<'LIST'
5 240 lab table::four_slow_disks_are_named_all_four
5 240 lab table::one_slow_nic_is_named
5 240 lab table::two_unequal_nics_are_named_both_and_the_split_follows_them
5 240 lab table::a_straggler_is_found_and_both_disks_are_named
5 240 lab table::a_cpu_quota_on_the_server_is_named
5 240 lab table::a_starved_receiver_is_named_not_the_nic_and_not_the_disks
1 600 lab load:: LINERATE_LAB_ROUNDS=5
3 240 lab disk:: LINERATE_LAB_ROUNDS=1
5 200 lab tune_measure::
5 120 lab watch::
3 120 lab wall::
3 240 lab network::
1 240 lab fleet::launchers:: LINERATE_LAUNCHERS=1
3 300 lab server_in_qemu::faults:: LINERATE_LAB_ROUNDS=1
1 200 lab server_in_qemu::boots:: LINERATE_LAB_ROUNDS=1
1 400 lab server_in_qemu::bad_input:: LINERATE_LAB_ROUNDS=1
1 200 lab server_in_qemu::zero_copy:: LINERATE_LAB_ROUNDS=1
1 120 lab server_in_qemu::remote:: LINERATE_LAB_ROUNDS=1
3 120 lab server_in_qemu::receiver:: LINERATE_LAB_ROUNDS=1
1 400 lab server_in_qemu::study:: LINERATE_LAB_ROUNDS=1
10 400 lab server_in_qemu::tune:: LINERATE_LAB_ROUNDS=1
1 1800 lab experiment_kills:: LINERATE_KILLS=100
1 1800 fast deliver::deaths:: LINERATE_KILLS=100
1 60 alone watch_cost::
3 300 alone wall_stock::
3 120 alone wall_many::
3 60 alone wall_serve::
3 60 alone network::
1 2100 alone wall_together:: LINERATE_LONG_SECONDS=1800
1 2100 alone disk::memory_is_the_same_after_a_short_run_and_after_a_long_one LINERATE_LONG_SECONDS=1800
LIST
}

# COMMAND PACKAGE: what these start beside what `./test` starts. No service of them is left running.
acceptance_needs() {
  cat <<'LIST'
mpiexec.hydra mpich
pdsh pdsh
sshd openssh-server
munged munge
slurmctld slurmctld
slurmd slurmd
srun slurm-client
LIST
}

# A call takes no longer; CI ends what takes 90 minutes.
LONGEST=4500

# What is measured: the commit, and a sum of what is not committed.
tree_state() {
  local commit changes
  commit=$(git rev-parse --short HEAD 2>/dev/null || echo none)
  changes=$(git diff HEAD 2>/dev/null | cksum)
  echo "$commit-${changes%% *}"
}

# count FILE FIELD: what an earlier call left there.
count() {
  sed -nE "s/.*\"$2\": ([0-9]+).*/\1/p" "$1" 2>/dev/null | grep . || echo 0
}

# One round; its last words are kept where it fails.
take_round() {
  local program=$1 test=$2 setting=$3 began=$SECONDS words=(--show-output --test-threads 1)
  [[ $test == *:: ]] || words+=(--exact)
  if as_root_in_crate env ${setting:+"$setting"} "$program" "$test" "${words[@]}" >"$work/round"; then
    if grep -q '^skipped: ' "$work/round"; then outcome=skipped; else outcome=passed; fi
  else
    outcome=failed
    tail -n 40 "$work/round"
  fi
  took=$((SECONDS - began))
}

# take ROUNDS SECONDS PROGRAM TEST SETTING: the rounds that are left. Fails where time is.
take() {
  local rounds=$1 longest=$2 program=$3 test=$4 setting=$5 file passed failed skipped seconds
  file=$target/acceptance/$program.$(tr -s ':/' '_' <<<"$test").json
  grep -qs "\"tree\": \"$state\"" "$file" || rm -f "$file"
  passed=$(count "$file" passed) failed=$(count "$file" failed)
  skipped=$(count "$file" skipped) seconds=$(count "$file" seconds)
  while ((passed + failed + skipped < rounds)); do
    ((SECONDS + longest < LONGEST)) || return 1
    take_round "${programs[$program]}" "$test" "$setting"
    case $outcome in passed) ((passed += 1)) ;; failed) ((failed += 1)) ;; skipped) ((skipped += 1)) ;; esac
    ((seconds += took)) || true
    {
      printf '{ "test": "%s %s", "setting": "%s", "tree": "%s", ' "$program" "$test" "$setting" "$state"
      printf '"rounds": %d, "passed": %d, "failed": %d, ' "$rounds" "$passed" "$failed"
      printf '"skipped": %d, "seconds": %d }\n' "$skipped" "$seconds"
    } >"$file.new"
    mv "$file.new" "$file"
    echo "test: $program $test: round $((passed + failed + skipped)) of $rounds $outcome, $took s"
  done
  ((all_failed += failed, all_skipped += skipped)) || true
}

thorough() {
  local rounds longest program test setting state left=0 all_failed=0 all_skipped=0 outcome took
  local -A programs
  state=$(tree_state)
  mkdir -p "$target/acceptance"
  cargo build --release --locked -p linerate || exit 1
  export LINERATE=$target/release/linerate
  for program in alone fast lab; do programs[$program]=$(program_of "$program"); done
  while read -r rounds longest program test setting <&3; do
    take "$rounds" "$longest" "$program" "$test" "$setting" || ((left += 1))
  done 3< <(acceptance)
  echo "test: $all_failed rounds failed, $all_skipped skipped; the counts are in $target/acceptance"
  if ((left)); then
    echo "test: $left tests have rounds left: ./test --thorough again continues there"
    exit 75
  fi
  exit "$((all_failed > 0))"
}
