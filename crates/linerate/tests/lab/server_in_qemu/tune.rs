//! `linerate tune` on a server in QEMU: what is applied to NICs, interrupts, NVMe, SATA and md comes back byte for
//! byte, also where `apply` is killed in its midst, or the power is cut. What `persist` wrote is there after a boot,
//! and goes with `undo`.

use super::guest::QemuServer;
use super::thorough;
use crate::support::program;
use serde_json::Value;
use std::time::{Duration, SystemTime};

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

/// What lasts over a boot on a server with a disk of its own, and here lies in the lab's folder: the journal, and the
/// folders of `persist`. After each boot again.
const LASTING: &str = r#"
for place in /var/lib/linerate /etc/sysctl.d /etc/udev/rules.d /etc/tmpfiles.d /etc/systemd/system; do
  mkdir -p "$place" "/run/lab/kept$place"
  mountpoint -q "$place" || mount --bind "/run/lab/kept$place" "$place"
done
"#;

/// An array of two drives, before the first boot and found again after it.
const MAKE_ARRAY: &str = "modprobe raid0 && mdadm --quiet --create /dev/md0 --run --level=0 --raid-devices=2 /dev/nvme0n1 /dev/nvme1n1";
const FIND_ARRAY: &str = "modprobe raid0 && mdadm --quiet --assemble --scan --run; [[ -e /sys/block/md0 ]] || \
     { mdadm --quiet --stop --scan; mdadm --quiet --assemble /dev/md0 --run /dev/nvme[0123]n1; }; [[ -e /sys/block/md0 ]]";

/// Applied and undone; then applied, killed somewhere on the way and undone, so often.
pub(super) fn apply_and_undo(guest: &QemuServer, kills: u32) {
    let script = format!(
        r#"{SNAPSHOT} {MAKE_ARRAY} || exit
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
echo "$changed settings, $reached of {kills} kills had changed some, apply takes $took ms"
mdadm --quiet --stop /dev/md0 && mdadm --zero-superblock /dev/nvme0n1 /dev/nvme1n1
"#,
        program = program(),
    );
    let said = guest.succeed(&script);
    eprintln!("tune: {}", said.trim());
}

/// `apply` takes one to two seconds there, once the program has been read; it looks at the machine first.
const SHORTEST_MS: u32 = 300;
const LONGEST_MS: u32 = 2000;

/// The power goes while `apply` is at work, or just after it. What the kernel forgot is not written again: after
/// `undo` all is as the boot left it, and nothing is open.
fn power_cut(guest: &QemuServer) {
    let tune = format!("{} tune", program());
    let after_ms = SystemTime::UNIX_EPOCH.elapsed().expect("a clock").subsec_nanos()
        % (LONGEST_MS - SHORTEST_MS)
        + SHORTEST_MS;
    guest.succeed(&format!(
        "{LASTING} {tune} >&2; {tune} apply --yes </dev/null >/run/lab/kept/apply.log 2>&1 &"
    ));
    std::thread::sleep(Duration::from_millis(after_ms.into()));
    guest.reboot();
    let said = guest.succeed(&format!(
        r#"{SNAPSHOT} {LASTING} {FIND_ARRAY} || exit 1
cd "$(mktemp -d)"
entries=$(cat /var/lib/linerate/* 2>/dev/null | wc -l)
snapshot >booted
{tune} undo >undo.log 2>&1 || grep -qi nothing undo.log || {{ cat undo.log; exit 1; }}
snapshot >after
diff booted after || {{ echo "undo changed that after a boot"; cat undo.log; exit 1; }}
{tune} undo 2>&1 | grep -qi nothing || {{ echo "something is open after undo"; cat undo.log; exit 1; }}
echo "power cut after {after_ms} ms, $entries lines in the journal"
"#
    ));
    eprintln!("tune: {}", said.trim());
}

/// What reads the drop-ins at a boot: sysctl, udev, systemd-tmpfiles, and the unit's own command line. There is no
/// init in the guest that would call them.
const BOOT_PROGRAMS: &str = r#"
sysctl --quiet --system
mount -t tmpfs none /usr/lib/udev/rules.d # the distribution's own would rename NICs
/lib/systemd/systemd-udevd --daemon
udevadm trigger --action=add --subsystem-match=net --subsystem-match=block && udevadm settle
udevadm control --exit
[[ ! -e /etc/tmpfiles.d/90-linerate.conf ]] || systemd-tmpfiles --create /etc/tmpfiles.d/90-linerate.conf
[[ ! -e /etc/systemd/system/linerate-tune.service ]] || grep -q '^Wants=linerate-tune.service' \
  /etc/systemd/system/multi-user.target.d/90-linerate.conf && \
  bash -c "$(sed -n 's/^ExecStart=//p' /etc/systemd/system/linerate-tune.service)" >unit.log 2>&1 || cat unit.log
"#;

/// Applied, persisted, booted: what was applied is set. Undone: the values of a boot are back and no file is left, also
/// after one more boot.
fn persist_and_undo(guest: &QemuServer) {
    let tune = format!("{} tune", program());
    let applied = guest.succeed(&format!("{LASTING} {tune} apply --yes --json; {tune} persist --yes >&2"));
    let applied: Value = serde_json::from_str(&applied).unwrap_or_else(|error| panic!("{error}: {applied}"));
    let applied = changed(&applied);
    assert!(applied.len() >= 15, "{applied:?}");
    guest.reboot();
    let values = |places: &[(String, String)]| {
        let places: Vec<&str> = places.iter().map(|(place, _)| place.as_str()).collect();
        let text = guest.succeed(&format!("for file in {}; do echo $(cat $file); done", places.join(" ")));
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    guest.succeed(&format!("{SNAPSHOT} {LASTING} {FIND_ARRAY} || exit 1; snapshot >/run/lab/kept/booted"));
    let booted = values(&applied);
    guest.succeed(&format!("cd \"$(mktemp -d)\"; {BOOT_PROGRAMS}"));
    let lasting = values(&applied);
    let wrong: Vec<String> = applied
        .iter()
        .zip(booted.iter().zip(&lasting))
        .filter(|((_, wanted), (_, now))| !is_set(wanted, now))
        .map(|((place, wanted), (before, now))| {
            format!("{place}: {wanted:?} was persisted, {now:?} is set, {before:?} booted")
        })
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
    let forgotten = booted.iter().zip(&lasting).filter(|(booted, lasting)| booted != lasting).count();
    assert!(forgotten >= 15, "the boot kept {booted:?}");
    let gone = r#"
diff /run/lab/kept/booted after || { echo "undo left that"; cat undo.log; exit 1; }
left=$(find /etc -name '*linerate*'); [[ ! $left ]] || { echo "left: $left"; exit 1; }
"#;
    guest.succeed(&format!(
        r#"{SNAPSHOT} cd "$(mktemp -d)"; {tune} undo >undo.log 2>&1 || {{ cat undo.log; exit 1; }}; snapshot >after; {gone}"#
    ));
    guest.reboot();
    guest.succeed(&format!(
        r#"{SNAPSHOT} {LASTING} {FIND_ARRAY} || exit 1; cd "$(mktemp -d)"; {BOOT_PROGRAMS} {tune} undo >undo.log 2>&1
grep -qi nothing undo.log || {{ cat undo.log; exit 1; }}
left=$(find /etc -name '*linerate*'); [[ ! $left ]] || {{ echo "left: $left"; exit 1; }}
"#
    ));
    eprintln!(
        "tune: {} settings lasted over a boot, {forgotten} of them are another after a boot alone",
        applied.len()
    );
}

/// Files that `apply --json` changed, with what they hold now; interrupts, whose numbers change from boot to boot, are
/// left out.
fn changed(outcomes: &Value) -> Vec<(String, String)> {
    let all = outcomes["outcomes"].as_array().expect("outcomes");
    let file = |one: &Value| {
        let place = one["place"].as_str()?;
        let place = if place.starts_with('/') {
            place.to_string()
        } else {
            format!("/proc/sys/{}", place.replace('.', "/"))
        };
        let is_file = one["what"]["outcome"] == "changed" && !place.contains("/irq/") && !place.contains(' ');
        is_file
            .then(|| {
                Some((place, one["what"]["now"].as_str()?.split_whitespace().collect::<Vec<_>>().join(" ")))
            })
            .flatten()
    };
    all.iter().filter_map(file).collect()
}

/// `performance` is set where the file holds `default [performance] powersave`, `0-1` where it holds the mask 3.
fn is_set(wanted: &str, now: &str) -> bool {
    let mask = || Some(u64::from_str_radix(now, 16).ok()? == mask_of(wanted)?);
    now == wanted || now.contains(&format!("[{wanted}]")) || mask() == Some(true)
}

/// Of a list of cores like `0-1,3`.
fn mask_of(list: &str) -> Option<u64> {
    let part = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some((from.parse::<u64>().ok()?..=to.parse().ok()?).map(|core| 1 << core).sum::<u64>())
    };
    list.split(',').map(part).sum()
}

#[test]
fn ten_kills_and_every_value_is_back() {
    if !thorough() {
        eprintln!("skipped: kills of tune on a server in QEMU: ./test --thorough takes a hundred");
        return;
    }
    let Some(guest) = QemuServer::up("tune", &[]) else { return };
    // LINERATE_LAB_KILLS=100 takes more in one boot.
    apply_and_undo(&guest, so_many("LINERATE_LAB_KILLS").unwrap_or(10));
    guest.down();
}

fn so_many(variable: &str) -> Option<u32> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn a_power_cut_leaves_nothing_and_what_is_persisted_lasts_until_undo() {
    if !thorough() {
        eprintln!("skipped: tune on a server in QEMU that is booted again: ./test --thorough");
        return;
    }
    let Some(guest) = QemuServer::up("tune-boots", &[]) else { return };
    guest.succeed(MAKE_ARRAY);
    // With LINERATE_LAB_CUTS=8 these are ten boots.
    (0..so_many("LINERATE_LAB_CUTS").unwrap_or(1)).for_each(|_| power_cut(&guest));
    persist_and_undo(&guest);
    guest.down();
}
