//! `linerate tune` on a server in QEMU: what is applied to NICs, interrupts, NVMe, SATA and md comes back byte for
//! byte, also where `apply` is killed in its midst.

use super::guest::QemuServer;
use super::thorough;
use crate::support::program;

/// Everything that tune may change, and more, with its contents; none of it changes by itself.
const SNAPSHOT: &str = r#"
snapshot() {
  local files=(/proc/sys/net/core/* /proc/sys/net/ipv4/{tcp,udp}_* /proc/sys/vm/* /proc/sys/kernel/numa_balancing \
    /proc/irq/*/smp_affinity /sys/block/*/queue/* /sys/class/net/eth*/queues/*/{rps,xps}_* \
    /sys/class/net/eth*/queues/rx-*/rps_flow_cnt /sys/class/net/eth*/{mtu,tx_queue_len,gro_flush_timeout} \
    /sys/class/net/eth*/{napi_defer_hard_irqs,threaded} /sys/bus/pci/devices/*/power/control \
    /sys/module/pcie_aspm/parameters/policy /sys/kernel/mm/transparent_hugepage/{enabled,defrag})
  grep -s -a '' "${files[@]}" # one process: each takes long there
  for nic in eth0 eth1; do
    tc qdisc show dev $nic
    ethtool -c $nic; ethtool -g $nic; ethtool -a $nic; ethtool -k $nic
  done 2>/dev/null
}
"#;

/// Applied and undone; then applied, killed somewhere on the way and undone, so often.
pub(super) fn apply_and_undo(guest: &QemuServer, kills: u32) {
    guest.succeed(
        "modprobe raid0 && mdadm --quiet --create /dev/md0 --run --level=0 --raid-devices=2 /dev/nvme0n1 /dev/nvme1n1",
    );
    let script = format!(
        r#"{SNAPSHOT}
cd "$(mktemp -d)"
tune="{program} tune"
snapshot >before
began=$(date +%s%N)
# The e1000e cannot adapt its interrupts; everything else has to be changed.
$tune apply --yes >apply.log 2>&1 || grep -q 'driver cannot do this' apply.log || {{ cat apply.log; exit 1; }}
took=$((($(date +%s%N) - began) / 1000000))
snapshot >applied
changed=$(diff before applied | grep -c '^>')
((changed >= 10)) || {{ echo "only $changed settings were changed"; cat apply.log; exit 1; }}
grep -q '/sys/block/md0/queue/read_ahead_kb' <(diff before applied) || {{ echo "nothing of md0"; exit 1; }}
grep -q '/queues/rx-0/rps_cpus' <(diff before applied) || {{ echo "nothing of RPS"; exit 1; }}
grep -q '/smp_affinity' <(diff before applied) || {{ echo "no interrupt"; exit 1; }}
$tune undo >undo.log 2>&1 || {{ cat undo.log; exit 1; }}
snapshot >after
diff before after || {{ echo "undo left that"; exit 1; }}
reached=0
for ((kill = 0; kill < {kills}; kill++)); do
  $tune apply --yes >apply.log 2>&1 &
  wait_ms=$((RANDOM % (took + 1)))
  sleep "$((wait_ms / 1000)).$(printf %03d $((wait_ms % 1000)))"
  kill -9 $! 2>/dev/null
  wait $! 2>/dev/null
  snapshot >killed
  cmp -s before killed || ((reached += 1))
  $tune undo >undo.log 2>&1 || {{ grep -qi 'nothing' undo.log || {{ cat undo.log; exit 1; }}; }}
  snapshot >after
  diff before after || {{ echo "undo left that, killed after $wait_ms of $took ms"; cat undo.log; exit 1; }}
done
echo "$changed settings, $reached of {kills} kills had changed some"
"#,
        program = program(),
    );
    let said = guest.succeed(&script);
    eprintln!("tune: {}", said.trim());
    guest.succeed("mdadm --quiet --stop /dev/md0 && mdadm --zero-superblock /dev/nvme0n1 /dev/nvme1n1");
}

#[test]
fn a_hundred_kills_and_every_value_is_back() {
    if !thorough() {
        eprintln!("skipped: a hundred kills of tune on a server in QEMU: ./test --thorough");
        return;
    }
    let Some(guest) = QemuServer::up("tune", &[]) else { return };
    // LINERATE_LAB_KILLS=10 takes fewer.
    let kills = std::env::var("LINERATE_LAB_KILLS").ok().and_then(|kills| kills.parse().ok());
    apply_and_undo(&guest, kills.unwrap_or(100));
    guest.down();
}
