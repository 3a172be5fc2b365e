# shellcheck shell=bash
# packaging/try systemd: the services of the .deb under a systemd that is the first process of a container.

# there COMMAND…: in the container, whose first process `systemd` is.
there() {
  nsenter --target "$systemd" --mount --uts --ipc --net --pid --root --wd=/ "$@"
}

boot() {
  local tries state
  systemd-nspawn --quiet --directory "$root" --boot --machine "linerate-try-$$" --register=no --keep-unit --private-network \
    --console=pipe </dev/null >"$work/console" 2>&1 &
  container=$!
  for ((tries = 0; tries < 600; tries++)); do
    kill -0 "$container" 2>/dev/null || { tail -n 5 "$work/console" >&2 && die "$step: the container has ended"; }
    systemd=$(first_process "$container") && state=$(there systemctl is-system-running 2>/dev/null) || true
    case ${state:-} in
      running) return ;;
      degraded) die "$step: after the start: $(there systemctl --failed --no-legend)" ;;
    esac
    sleep 0.1
  done
  die "$step: the container has not come up in a minute"
}

# first_process CONTAINER: the process of nspawn's that is the first one in its namespace.
first_process() {
  local child
  for child in $(<"/proc/$1/task/$1/children"); do
    [[ $(readlink "/proc/$child/exe") == */systemd ]] && echo "$child" && return
  done
  return 1
}

halt() {
  kill -TERM "$container" # nspawn has systemd power off
  wait "$container" || true
}

# starts SERVICE: and it is there still after a second, never started again.
starts() {
  expect "systemctl start $1" there systemctl start "$1"
  sleep 1
  there systemctl --quiet is-active "$1" || die "$step: $1 has ended: $(there journalctl --unit "$1" --output cat | tail -n 5)"
}

# stops SERVICE: of itself, when it is told to.
stops() {
  local result
  expect "systemctl stop $1" there systemctl stop "$1"
  result=$(there systemctl show --property=Result,NRestarts --value "$1" | xargs)
  [[ $result == "success 0" ]] || die "$step: $1 ended with: $result"
  echo "  $1: started, used, stopped"
}

agent_under_systemd() {
  echo 'LINERATE_AGENT_OPTIONS=--allow 127.0.0.1 --time-limit 60' >"$root/etc/default/linerate-agent"
  starts linerate-agent
  figure "network to the service" "$of_network" there env LINERATE_KEY="$(head -n 1 "$root/var/lib/private/linerate-agent/key")" \
    linerate network --peer 127.0.0.1 --seconds 1 --repeats 1 --json --no-save
  ! there journalctl --unit linerate-agent | grep -F -q -f "$root/var/lib/private/linerate-agent/key" ||
    die "$step: the key is in the journal"
  stops linerate-agent
}

watch_under_systemd() {
  starts linerate-watch
  # shellcheck disable=SC2016
  expect "/metrics" there bash -c 'exec 3<>/dev/tcp/127.0.0.1/7414
    printf "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:7414\r\nConnection: close\r\n\r\n" >&3; cat <&3'
  grep -q '^linerate_' "$work/out" || die "$step: /metrics has none of linerate's: $(head -n 5 "$work/out")"
  stops linerate-watch
}

serve_under_systemd() {
  head -c 64M /dev/urandom >"$root/srv/file"
  chmod 0644 "$root/srv/file"
  expect "systemctl start linerate-serve" there systemctl start linerate-serve
  ! there systemctl is-active --quiet linerate-serve || die "$step: it serves before it is set up"
  there journalctl --unit linerate-serve | grep -q 'Nothing is served: write' || die "$step: it does not say what to do"
  echo 'LINERATE_SERVE_OPTIONS=/srv --listen 127.0.0.1' >"$root/etc/default/linerate-serve"
  starts linerate-serve
  expect "linerate get" there linerate get http://127.0.0.1:7415/file --output /root --no-save
  cmp "$root/srv/file" "$root/root/file" || die "$step: what was served differs"
  stops linerate-serve
}

# Once by hand; the timer is on the list with its next time.
check_under_systemd() {
  echo 'LINERATE_CHECK_OPTIONS=--budget 10 --amount 128M' >"$root/etc/default/linerate-check"
  expect "systemctl start linerate-check" there systemctl start linerate-check
  there journalctl --unit linerate-check --output cat | grep -q 'earlier' ||
    die "$step: linerate-check printed: $(there journalctl --unit linerate-check --output cat | tail -n 5)"
  expect "systemctl enable --now linerate-check.timer" there systemctl enable --now linerate-check.timer
  expect "systemctl list-timers" there systemctl list-timers --no-legend
  grep -q linerate-check.timer "$work/out" || die "$step: the timer has no next time: $(cat "$work/out")"
  echo "  linerate-check: ran once; its timer waits for $(awk '/linerate-check/ { print $2, $3 }' "$work/out")"
}

try_systemd() {
  if lacks systemd-nspawn; then return; fi
  package "linerate_*_$(dpkg --print-architecture).deb" || return 0
  debian_root || return 0
  install_deb
  boot
  agent_under_systemd
  watch_under_systemd
  serve_under_systemd
  check_under_systemd
  halt
}
