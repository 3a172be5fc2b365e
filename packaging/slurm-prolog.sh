#!/bin/sh
# A gate before every job: as Prolog= in slurm.conf (PrologFlags=Alloc), run as root on each node of the job.
#
#   linerate plan --expectations >/etc/linerate/node.toml      of what the parts of this kind of node should do, or
#   linerate report @-1 --expectations >/etc/linerate/node.toml of a run on a node that is known to be good
#
# A node that fails a rule is drained with the cause; one that cannot be judged takes the job, and says why in the log.
# It looks at the machine in a second; the disks and the network are measured where the last good run is older than a
# day, which takes less than LINERATE_SECONDS + 30. PrologEpilogTimeout has to be longer.
rules=${LINERATE_RULES:-/etc/linerate/node.toml}
seconds=${LINERATE_SECONDS:-45}
state=${LINERATE_STATE:-/var/lib/linerate-gate}
junit=$state/gate.xml
export XDG_STATE_HOME="$state"

[ -r "$rules" ] || exit 0
mkdir -p "$state" || exit 0

drain() {
  reason=$(printf '%s\n' "$1" | sed -n 's/^failed  *//p' | head -n 1 | cut -c 1-200)
  scontrol update NodeName="$SLURMD_NODENAME" State=DRAIN Reason="linerate: $reason"
  exit 1
}

judged() {
  said=$("$@" 2>&1)
  status=$?
  logger -t linerate-gate -- "$said"
  [ "$status" -ne 5 ] || drain "$said"
}

judged linerate probe --expect 'probe: no link below its best' --expect 'probe: no array-degraded'
if [ -z "$(find "$state/passed" -mtime -1 2>/dev/null)" ]; then
  # shellcheck disable=SC2086 # LINERATE_FLOW holds several words: --source FILE --peer ADDRESS.
  judged timeout $((seconds + 30)) linerate run --observe --budget "$seconds" --format line ${LINERATE_FLOW:-} \
    --expect "$rules" --junit "$junit"
  [ "$status" -ne 0 ] || touch "$state/passed"
fi
exit 0
