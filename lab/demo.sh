# shellcheck shell=bash
# The demonstration: an agent on the peer under a fresh key, `linerate run` on the server with every disk and every NIC
# (or those of the --peer that it is given).

readonly agent_port=7411

# The program: $LINERATE, else the build beside the lab, else the one on the PATH.
find_linerate() {
  local built=$here/../target/release/linerate
  if [[ -n ${LINERATE:-} ]]; then
    [[ -x $LINERATE ]] || die "LINERATE=$LINERATE is no program" 3
    readlink -f "$LINERATE"
  elif [[ -x $built ]]; then
    readlink -f "$built"
  else
    command -v linerate || die "there is no linerate yet: cargo build --release" 3
  fi
}

command_demo() {
  need_root demo
  read_state
  local linerate arguments=() line status=0
  linerate=$(find_linerate)
  demo_dir=$(mktemp -d "$lab_dir/demo.XXXXXX")
  trap stop_agent EXIT
  trap : INT # linerate gets it too and ends; its status counts
  trap 'exit 143' TERM HUP
  (run_in peer "$linerate" agent --listen "0.0.0.0:$agent_port" --key-file "$demo_dir/key") \
    >"$demo_dir/agent.log" 2>&1 </dev/null &
  agent=$!
  wait_for_agent
  while read -r line; do arguments+=(--source "$line"); done < <(command_sources)
  if [[ " $* " != *" --peer "* ]]; then
    while read -r line; do arguments+=(--peer "$line:$agent_port"); done < <(command_address)
  fi
  (run_in server "$linerate" run "${arguments[@]}" --key-file "$demo_dir/key" "$@") || status=$?
  return "$status"
}

# Waits until the agent listens; the port is looked up in the peer's own table of sockets (state 0A is LISTEN).
wait_for_agent() {
  local tries port
  port=$(printf '%04X' "$agent_port")
  for ((tries = 0; tries < 200; tries++)); do
    kill -0 "$agent" 2>/dev/null || die "the agent ended at once: $(tail -n 1 "$demo_dir/agent.log")"
    if nsenter --net="/run/netns/$netns_peer" -- cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
      awk -v port=":$port" '$4 == "0A" && index($2, port) { found = 1 } END { exit !found }'; then
      return 0
    fi
    sleep 0.05
  done
  die "the agent does not listen on port $agent_port after 10 seconds: $(tail -n 1 "$demo_dir/agent.log")"
}

stop_agent() {
  local status=$?
  trap - EXIT
  if [[ -n ${agent:-} ]]; then
    kill -TERM "$agent" 2>/dev/null || true
    wait "$agent" 2>/dev/null || true
  fi
  rm -rf -- "$demo_dir"
  exit "$status"
}
