#!/usr/bin/env bash
# What starts programs on the hosts of a lab (`lab up --hosts N --name NAME`), made for one test: everything is in FOLDER,
# runs within the lab's hosts, and goes with `lab down`.
#
#   launchers.sh ssh NAME N FOLDER     sshd on each host, with a key and a configuration of its own: ssh -F FOLDER/ssh_config h1
#   launchers.sh slurm NAME N FOLDER   slurmctld on the head and slurmd on each host: SLURM_CONF=FOLDER/slurm.conf srun -N 4
set -euo pipefail
lab=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/lab

# address HOST
address() {
  "$lab" host --name "$name" "$1" -- ip -4 -o addr show dev eth0 | sed -nE 's|.* inet ([0-9.]+)/.*|\1|p'
}

# on HOST COMMAND…: in the background, for as long as the lab is up.
on() {
  local host=$1
  shift
  "$lab" host --name "$name" "$host" -- "$@" </dev/null >>"$folder/$host.log" 2>&1 &
  disown
}

# await WHAT COMMAND…
await() {
  local what=$1 i
  shift
  for ((i = 0; i < 200; i++)); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  echo "launchers.sh: $what did not come up; $folder has its log" >&2
  exit 1
}

start_ssh() {
  local i
  # Debian's sshd wants it, and its service makes it.
  mkdir -p /run/sshd
  ssh-keygen -q -t ed25519 -N '' -f "$folder/key"
  ssh-keygen -q -t ed25519 -N '' -f "$folder/host_key"
  cat >"$folder/sshd_config" <<END
HostKey $folder/host_key
PidFile none
AuthorizedKeysFile $folder/key.pub
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
AcceptEnv LINERATE_KEY
END
  cat >"$folder/ssh_config" <<END
Host *
  IdentityFile $folder/key
  IdentitiesOnly yes
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking no
  LogLevel ERROR
  BatchMode yes
  SendEnv LINERATE_KEY
END
  for ((i = 1; i <= hosts; i++)); do
    on "h$i" /usr/sbin/sshd -D -e -f "$folder/sshd_config"
    printf 'Host h%s\n  HostName %s\n' "$i" "$(address "h$i")" >>"$folder/ssh_config"
  done
  for ((i = 1; i <= hosts; i++)); do
    await "sshd on h$i" "$lab" host --name "$name" head -- ssh -F "$folder/ssh_config" "h$i" true
  done
}

start_slurm() {
  local i
  mkdir "$folder/state"
  head -c 1024 /dev/urandom >"$folder/munge.key"
  chmod 600 "$folder/munge.key"
  cat >"$folder/slurm.conf" <<END
ClusterName=lab
SlurmctldHost=head($(address head))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/builtin
PartitionName=all Nodes=ALL Default=YES State=UP
END
  for ((i = 1; i <= hosts; i++)); do
    echo "NodeName=h$i NodeAddr=$(address "h$i") CPUs=1 State=UNKNOWN" >>"$folder/slurm.conf"
  done
  export SLURM_CONF=$folder/slurm.conf
  on head /usr/sbin/munged --foreground --force --socket="$folder/munge.socket" --key-file="$folder/munge.key" \
    --pid-file="$folder/munged.pid" --log-file="$folder/munged.log" --seed-file="$folder/munge.seed"
  await munged test -S "$folder/munge.socket"
  on head /usr/sbin/slurmctld -D -f "$folder/slurm.conf"
  for ((i = 1; i <= hosts; i++)); do on "h$i" /usr/sbin/slurmd -D -N "h$i" -f "$folder/slurm.conf"; done
  await slurm "$lab" host --name "$name" head -- srun -N "$hosts" true
}

(($# == 4)) || {
  echo "launchers.sh: wants ssh or slurm, the name of a lab, its number of hosts, and a folder" >&2
  exit 2
}
name=$2 hosts=$3 folder=$4
case $1 in
  ssh) start_ssh ;;
  slurm) start_slurm ;;
  *)
    echo "launchers.sh: has no launcher “$1”: ssh or slurm" >&2
    exit 2
    ;;
esac
