use super::*;
use linerate_facts::fact::Fact;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn quantity(text: &str) -> PublishedQuantity {
    text.to_string().try_into().expect("a figure")
}

fn command(text: &str) -> Result<StepCommand, StepCommandError> {
    text.to_string().try_into()
}

fn figure(published: &str) -> PaperFigure {
    let text = format!("what = \"w\"\nplace = \"p\"\npublished = \"{published}\"");
    toml::from_str(&text).expect("a figure")
}

#[test]
fn figures_are_read_and_shown_in_the_papers_unit() {
    let rate = quantity("813 MiB/s");
    assert_eq!((rate.kind(), rate.show(842.1e6)), (QuantityKind::Rate, "803 MiB/s".into()));
    assert!((rate.ratio(842.1e6) - 0.988).abs() < 0.001);
    let range = quantity("25.21 to 26.77 Gb/s");
    assert_eq!((range.ratio(26.7e9 / 8.0), range.show(26.7e9 / 8.0)), (1.0, "26.7 Gb/s".into()));
    assert!((range.ratio(13.385e9 / 8.0) - 0.531).abs() < 0.001);
    assert_eq!(quantity("5 to 6 disk controllers").kind(), QuantityKind::Count);
    assert_eq!(quantity("18 ms").show(0.0181), "18.1 ms");
    assert_eq!(quantity("81 %").show(0.79), "79.0 %");
    assert_eq!(
        (quantity("0.34 CPU s/GB").kind(), quantity("88 % busy").kind()),
        (QuantityKind::CpuCost, QuantityKind::CpuBusy)
    );
    assert_eq!(quantity("32.9 GB/s").scaled(0.5).text(), "16.4 GB/s");
    for wrong in ["", "5", "Gb/s", "6 to 5 disks", "-1 W", "1 to", "1e999 W", "3 kW", "nan W", "1 GiB"] {
        let error = PublishedQuantity::try_from(wrong.to_string()).expect_err(wrong);
        assert!(error.to_string().contains("figure with its unit"), "{error}");
    }
}

#[test]
fn a_command_takes_the_parts_that_are_here() {
    let step =
        command("network --protocol udp --no-receiver {address} --nic {nic} --yes").expect("a command");
    let mut given = BTreeMap::from([("nic".to_string(), vec!["eth0".to_string(), "eth1".into()])]);
    assert_eq!(step.filled(&given), Err(vec!["address".to_string()]));
    given.insert("address".into(), vec!["192.0.2.1".into()]);
    let words = step.filled(&given).expect("all are given").join(" ");
    assert_eq!(words, "network --protocol udp --no-receiver 192.0.2.1 --nic eth0 --nic eth1 --yes");
}

#[test]
fn a_file_decides_nothing_about_this_network_and_these_disks() {
    for (wrong, word) in [
        ("tune apply", "tune"),
        ("", "begin with run"),
        ("disk --destroy-data /dev/sda", "--destroy-data"),
        ("network --no-receiver=192.0.2.1 --nic {nic}", "--no-receiver"),
        ("network --peer 192.0.2.1", "--peer"),
        ("disk --output /etc", "--output"),
    ] {
        let error = command(wrong).expect_err(wrong).to_string();
        assert!(error.contains(word), "{wrong}: {error}");
    }
}

#[test]
fn what_is_wrong_is_reported_with_its_line() {
    let error = parse("paper = \"P\"\nmachine = \"m\"\n[[step]]\nname = \"s\"\nrun = \"serve /\"\n");
    let error = error.expect_err("no measuring command").to_string();
    assert!(error.contains("line 5") && error.contains("serve"), "{error}");
    assert!(parse(&"#".repeat(LARGEST_PAPER_BYTES + 1)).is_err());
}

#[test]
fn the_first_difference_is_named_in_its_order() {
    let figure = figure("30 Gb/s");
    let conditions = |method: &str, kernel: &str| Conditions {
        method: Some(method.into()),
        file_system: None,
        kernel: Some(kernel.into()),
    };
    let (here, there) = (conditions("linerate", "6.8"), conditions("iperf", "2.6"));
    let parts = [("nic".to_string(), 1, 3)];
    let kinds = |parts: &[_], planned| -> Vec<CauseKind> {
        causes_here(parts, planned, &figure.published, [&here, &there])
            .iter()
            .map(|cause| cause.cause)
            .collect()
    };
    use CauseKind::*;
    assert_eq!(kinds(&parts, Some([1e9, 3.75e9])), [Part, Rate, Method, Kernel]);
    assert_eq!(kinds(&[("nic".into(), 3, 3)], Some([3.7e9, 3.75e9])), [Method, Kernel]);
    // A third of the NICs is held against a third of the figure.
    let causes = causes_here(&parts, None, &figure.published, [&here, &there]);
    let reproduced = ReproducedFigure::new(&figure, 1.0 / 3.0, Fact::Known(1.24e9), causes.clone());
    assert!(!reproduced.differs() && reproduced.causes.is_empty(), "{reproduced:?}");
    let slower = ReproducedFigure::new(&figure, 1.0 / 3.0, Fact::Known(1.1e9), causes);
    assert!(slower.differs() && slower.causes[0].cause == Part, "{slower:?}");
}

proptest! {
    #[test]
    fn nothing_panics(text in "\\PC{0,80}") {
        let _ = parse(&text);
        let _ = command(&text);
        if let Ok(quantity) = PublishedQuantity::try_from(text) {
            let again = quantity.scaled(0.5);
            prop_assert!(again.ratio(quantity.ratio(1.0)).is_finite());
        }
    }
}
