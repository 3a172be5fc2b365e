//! What the ethtool ioctl tells against what the program `ethtool` shows, on the interfaces of this machine
//! and on a veth in a network namespace of the test's own.

use linerate_system::Errno;
use linerate_system::ethtool::{Duplex, Ethtool};
use std::process::Command;

/// Output of `ethtool OPTION INTERFACE`; `None` where it refuses, as it does for what the driver does not
/// answer.
fn shown(option: &str, interface: &str) -> Option<String> {
    let options: &[&str] = if option.is_empty() { &[] } else { &[option] };
    let output = Command::new("ethtool").args(options).arg(interface).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn ethtool_is_here() -> bool {
    let here = Command::new("ethtool").arg("--version").output().is_ok_and(|output| output.status.success());
    if !here {
        println!("skipped: no ethtool to compare with");
    }
    here
}

/// The value after `KEY:` on the `nth` line that begins with it; `n/a` and the like are not numbers.
fn value<'a>(text: &'a str, key: &str, nth: usize) -> Option<&'a str> {
    let found = text.lines().filter_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':')).nth(nth)?;
    Some(found.trim())
}

fn number(text: &str, key: &str, nth: usize) -> u32 {
    value(text, key, nth).and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// Every question about one interface; how many could be compared.
fn compare(ethtool: &Ethtool, name: &str) -> usize {
    let mut compared = 0;
    if let Some(text) = shown("-i", name) {
        let driver = ethtool.driver(name).expect("the driver, as ethtool has it");
        assert_eq!(value(&text, "driver", 0), Some(driver.name.as_str()));
        assert_eq!(value(&text, "firmware-version", 0), Some(driver.firmware.as_str()));
        assert_eq!(value(&text, "bus-info", 0), Some(driver.bus.as_str()));
        compared += 1;
    }
    if let Some(text) = shown("-g", name) {
        let rings = ethtool.rings(name).expect("the rings, as ethtool has them");
        let expected =
            (number(&text, "RX", 0), number(&text, "TX", 0), number(&text, "RX", 1), number(&text, "TX", 1));
        assert_eq!((rings.rx_max, rings.tx_max, rings.rx, rings.tx), expected, "{name}: {text}");
        compared += 1;
    }
    if let Some(text) = shown("-l", name) {
        let channels = ethtool.channels(name).expect("the channels, as ethtool has them");
        let most = (channels.rx_max, channels.tx_max, channels.combined_max);
        let now = (channels.rx, channels.tx, channels.combined);
        let expected =
            |nth| (number(&text, "RX", nth), number(&text, "TX", nth), number(&text, "Combined", nth));
        assert_eq!((most, now), (expected(0), expected(1)), "{name}: {text}");
        compared += 1;
    }
    if let Some(text) = shown("-c", name) {
        let coalescing = ethtool.coalescing(name).expect("the coalescing, as ethtool has it");
        let shown =
            (number(&text, "rx-usecs", 0), number(&text, "rx-frames", 0), number(&text, "tx-usecs", 0));
        assert_eq!((coalescing.rx_us, coalescing.rx_frames, coalescing.tx_us), shown, "{name}: {text}");
        let adaptive = value(&text, "Adaptive RX", 0).unwrap_or("");
        assert_eq!(coalescing.adaptive_rx, adaptive.starts_with("on"), "{name}: {text}");
        compared += 1;
    }
    if let Some(text) = shown("-a", name) {
        let pause = ethtool.pause(name).expect("the pause frames, as ethtool has them");
        let on = |key| value(&text, key, 0) == Some("on");
        assert_eq!(
            (pause.rx, pause.tx, pause.negotiated),
            (on("RX"), on("TX"), on("Autonegotiate")),
            "{name}"
        );
        compared += 1;
    }
    compared + compare_features(ethtool, name) + compare_link(ethtool, name)
}

/// ethtool shows names of its own for sets of features (`tcp-segmentation-offload`) and the kernel's for the
/// others; `-k` shows all of those that have no older name.
fn compare_features(ethtool: &Ethtool, name: &str) -> usize {
    let Some(text) = shown("-k", name) else { return 0 };
    let on = ethtool.features(name).expect("the features, as ethtool has them");
    let mut compared = 0;
    let all = "tx-udp-segmentation tx-tcp-segmentation tx-checksum-ip-generic rx-gro-hw \
                   rx-udp-gro-forwarding";
    for kernel in all.split(' ') {
        let Some(state) = value(&text, kernel, 0) else { continue };
        assert_eq!(on.iter().any(|feature| feature == kernel), state.starts_with("on"), "{name}: {kernel}");
        compared += 1;
    }
    for (older, kernel) in
        [("generic-receive-offload", "rx-gro"), ("generic-segmentation-offload", "tx-generic-segmentation")]
    {
        let Some(state) = value(&text, older, 0) else { continue };
        assert_eq!(on.iter().any(|feature| feature == kernel), state.starts_with("on"), "{name}: {kernel}");
        compared += 1;
    }
    assert!(compared >= 3, "{name}: ethtool -k shows hardly a feature: {text}");
    compared
}

fn compare_link(ethtool: &Ethtool, name: &str) -> usize {
    let Some(text) = shown("", name).filter(|text| text.contains("Duplex:")) else { return 0 };
    let link = ethtool.link(name).expect("the link, as ethtool has it");
    let megabits = value(&text, "Speed", 0).and_then(|speed| speed.strip_suffix("Mb/s")?.parse::<u64>().ok());
    assert_eq!(link.bits_per_second, megabits.map(|speed| speed * 1_000_000), "{name}: {text}");
    let duplex = match value(&text, "Duplex", 0) {
        Some("Full") => Some(Duplex::Full),
        Some("Half") => Some(Duplex::Half),
        _ => None,
    };
    assert_eq!(link.duplex, duplex, "{name}: {text}");
    if value(&text, "Port", 0) == Some("Twisted Pair") {
        assert_eq!(link.port, Some("twisted pair"), "{name}");
    }
    assert_eq!(link.negotiated, value(&text, "Auto-negotiation", 0) == Some("on"), "{name}: {text}");
    1
}

#[test]
fn the_interfaces_of_this_machine() {
    if !ethtool_is_here() {
        return;
    }
    let ethtool = Ethtool::new().expect("a socket");
    let entries = std::fs::read_dir("/sys/class/net").expect("the interfaces");
    let mut compared = 0;
    for name in
        entries.flatten().filter(|entry| entry.path().join("mtu").exists()).map(|entry| entry.file_name())
    {
        compared += compare(&ethtool, &name.to_string_lossy());
    }
    assert!(compared > 0, "not one answer to compare");
}

#[test]
fn a_veth_in_a_namespace_of_its_own() {
    if !ethtool_is_here() {
        return;
    }
    // The namespace is this thread's and that of the programs which it starts, and is gone with them.
    let namespace = std::thread::spawn(|| {
        // SAFETY: CLONE_NEWNET changes nothing but the network namespace of this thread.
        let unshared = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) };
        let words = "link add left type veth peer name right numrxqueues 4 numtxqueues 2";
        let made = || Command::new("ip").args(words.split(' ')).status().is_ok_and(|status| status.success());
        if unshared.is_err() || !made() {
            println!("skipped: a network namespace and a veth in it need root and `ip`");
            return;
        }
        let ethtool = Ethtool::new().expect("a socket");
        assert_eq!(ethtool.driver("right").expect("the driver").name, "veth");
        for interface in ["lo", "left", "right"] {
            assert!(compare(&ethtool, interface) >= 3, "{interface}");
        }
        let switched = Command::new("ethtool").args(["-K", "left", "tso", "off"]).status();
        assert!(switched.is_ok_and(|status| status.success()), "ethtool switches an offload off");
        assert!(
            !ethtool.features("left").expect("features").iter().any(|name| name == "tx-tcp-segmentation")
        );
        assert!(compare(&ethtool, "left") >= 3);
        let answer = ethtool.fec("left").expect_err("a veth corrects nothing");
        assert_eq!(Errno::from_io_error(&answer), Some(Errno::OPNOTSUPP));
    });
    namespace.join().expect("the comparison");
}
