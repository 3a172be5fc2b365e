//! Boards by their slots' names, as real firmware lists them.

use super::*;
use crate::probe::{MemoryArray, MemoryModule, Socket};
use proptest::prelude::*;

/// A machine: maker, processors, and slots as `locator|bank`, a `*` behind those with a module.
fn machine(maker: &str, processor: &str, sockets: usize, slots: &[&str]) -> Firmware {
    let socket = Socket { populated: true, version: Fact::Known(processor.into()), ..Default::default() };
    let modules: Vec<MemoryModule> = slots
        .iter()
        .map(|slot| {
            let (name, size) = slot.strip_suffix('*').map_or((*slot, 0), |name| (name, 16 << 30));
            let (locator, bank) = name.split_once('|').unwrap_or((name, ""));
            MemoryModule {
                locator: locator.into(),
                bank: bank.into(),
                size_bytes: Fact::Known(size),
                form: "DIMM".into(),
                ..Default::default()
            }
        })
        .collect();
    let count = u32::try_from(modules.len()).expect("a few");
    Firmware {
        maker: maker.into(),
        sockets: vec![socket; sockets],
        arrays: vec![MemoryArray { slots: Fact::Known(count), ..Default::default() }],
        modules,
        ..Default::default()
    }
}

/// `socket.channel` of each slot, `-` where it is not known.
fn show(inferred: &MemoryChannels) -> String {
    let channels = inferred.of_modules.iter().map(|channel| match channel {
        Fact::Known(MemoryChannel { socket, channel }) => format!("{socket}.{channel}"),
        Fact::Unknown { .. } => "-".into(),
    });
    channels.collect::<Vec<_>>().join(" ")
}

fn check(firmware: &Firmware, confidence: Confidence, populated: u32, channels: &str) {
    let inferred = infer(firmware);
    let read = (inferred.confidence, inferred.populated.known().copied(), show(&inferred));
    assert_eq!(read, (confidence, Some(populated), channels.to_string()), "{:?}", inferred.populated);
}

const E5_2600: &str = "Intel(R) Xeon(R) CPU E5-2660 v3 @ 2.60GHz";
const X5600: &str = "Intel(R) Xeon(R) CPU           X5670  @ 2.93GHz";
const GOLD: &str = "Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz";
const E3: &str = "Intel(R) Xeon(R) CPU E3-1230 V2 @ 3.30GHz";

#[test]
fn channels_that_are_written_out() {
    let slots = [
        "P1-DIMMA1|P0_Node0_Channel0_Dimm0*",
        "P1-DIMMA2|NO DIMM",
        "P1-DIMMB1|P0_Node0_Channel1_Dimm0*",
        "P2-DIMMC1|P1_Node1_Channel0_Dimm0*",
        "P2-DIMMD1|NO DIMM",
    ];
    // A2 is on A1's channel; what D1 is on, no populated slot has shown.
    check(&machine("Supermicro", E5_2600, 2, &slots), Confidence::High, 3, "0.0 0.0 0.1 1.0 -");
    let slots =
        ["DIMM 0|P0 CHANNEL A", "DIMM 1|P0 CHANNEL A*", "DIMM 0|P1 CHANNEL A*", "DIMM 0|P1 CHANNEL B*"];
    check(
        &machine("AMD", "AMD EPYC 7742 64-Core Processor", 2, &slots),
        Confidence::High,
        3,
        "0.0 0.0 1.0 1.1",
    );
    let slots = ["ChannelA_Dimm1|ChannelA*", "ChannelD_Dimm1|ChannelD", "ChannelE_Dimm1|ChannelE*"];
    check(&machine("ETegro", E5_2600, 2, &slots), Confidence::High, 2, "0.0 0.1 1.0");
    let slots = ["Controller0-ChannelA-DIMM0|BANK 0*", "Controller1-ChannelA-DIMM0|BANK 0*"];
    check(
        &machine("GEEKOM", "13th Gen Intel(R) Core(TM) i9-13900H", 1, &slots),
        Confidence::High,
        2,
        "0.0 0.1",
    );
    let slots = ["CPU0_C0D0|NODE 0*", "CPU0_C0D1|NODE 0", "CPU0_C2D0|NODE 1*", "CPU1_C0D0|NODE 2*"];
    check(&machine("Inspur", GOLD, 2, &slots), Confidence::High, 3, "0.0 0.0 0.2 1.0");
    let slots = ["A0|_Node0_Channel0_Dimm0*", "A1|_Node0_Channel1_Dimm0*", "B0|_Node1_Channel0_Dimm0*"];
    check(&machine("Quanta", E5_2600, 2, &slots), Confidence::Medium, 3, "0.0 0.1 1.0");
}

#[test]
fn words_that_contradict_the_processor_yield_to_letters() {
    // A Lenovo HR630X calls the second slot of channel 5 "Channel6".
    let mut slots = Vec::new();
    for (channel, letter) in ["A", "B", "C", "D", "E", "F"].iter().enumerate() {
        slots.push(format!("CPU1_DIMM_{letter}1|_Node0_Channel{channel}_Dimm0*"));
        let second = if channel == 5 { 6 } else { channel };
        slots.push(format!("CPU1_DIMM_{letter}2|_Node0_Channel{second}_Dimm1"));
    }
    let slots: Vec<&str> = slots.iter().map(String::as_str).collect();
    let channels = "0.0 0.0 0.1 0.1 0.2 0.2 0.3 0.3 0.4 0.4 0.5 0.5";
    check(&machine("Lenovo", GOLD, 1, &slots), Confidence::Medium, 6, channels);
}

#[test]
fn letters_are_channels() {
    let slots = [
        "DIMM_A1|NODE 1*",
        "DIMM_A2|NODE 1",
        "DIMM_F1|NODE 2*",
        "DIMM_G1|NODE 3*",
        "DIMM_J1|NODE 3",
        "DIMM_M1|NODE 4*",
    ];
    check(&machine("ASUSTeK", GOLD, 2, &slots), Confidence::Medium, 4, "0.0 0.0 0.1 1.0 1.1 1.2");
    let slots = ["DIMM_P0_A0|BANK 0*", "DIMM_P0_B0|BANK 0*", "DIMM_P1_A0|BANK 0*"];
    check(
        &machine("GIGABYTE", "AMD EPYC 7742 64-Core Processor", 2, &slots),
        Confidence::Medium,
        3,
        "0.0 0.1 1.0",
    );
    // A board that lists two sockets' slots and one socket.
    let slots = ["DIMM_A1*", "DIMM_B1*", "DIMM_C1", "DIMM_D1", "DIMM_E1", "DIMM_F1", "DIMM_G1", "DIMM_H1"];
    check(&machine("ASUSTeK", E5_2600, 1, &slots), Confidence::Medium, 2, "0.0 0.1 0.2 0.3 1.0 1.1 1.2 1.3");
    // Nothing checks letters where the processor is not known.
    check(&machine("x", "?", 1, &["DIMM_A1*", "DIMM_B1*"]), Confidence::Low, 2, "0.0 0.1");
    // Dell's small servers: two letters, one socket.
    let slots = ["DIMM A2|BANK 0*", "DIMM A1|BANK 1*", "DIMM B2|BANK 2*", "DIMM B1|BANK 3*"];
    check(&machine("Dell Inc.", E3, 1, &slots), Confidence::Medium, 2, "0.0 0.0 0.1 0.1");
}

#[test]
fn dells_letters_are_sockets() {
    let names: Vec<String> =
        (1..=12).map(|n| format!("A{n}")).chain((1..=12).map(|n| format!("B{n}*"))).collect();
    let slots: Vec<&str> = names.iter().map(String::as_str).collect();
    let four =
        "0.0 0.1 0.2 0.3 0.0 0.1 0.2 0.3 0.0 0.1 0.2 0.3 1.0 1.1 1.2 1.3 1.0 1.1 1.2 1.3 1.0 1.1 1.2 1.3";
    check(&machine("Dell Inc.", E5_2600, 2, &slots), Confidence::Medium, 4, four);
    let six =
        "0.0 0.1 0.2 0.3 0.4 0.5 0.0 0.1 0.2 0.3 0.4 0.5 1.0 1.1 1.2 1.3 1.4 1.5 1.0 1.1 1.2 1.3 1.4 1.5";
    check(&machine("Dell Inc.", GOLD, 2, &slots), Confidence::Medium, 6, six);
    let inferred = infer(&machine("Somebody", GOLD, 2, &slots));
    assert_eq!(inferred.populated, Fact::Known(6), "the second socket is full");
    assert!(
        inferred.of_modules[0]
            .why()
            .is_some_and(|why| why.contains("the letters of the slots are the sockets'"))
    );
    let slots = ["A1*", "A2*", "A3*", "A4*", "B1*", "B2", "B3", "B4"];
    check(&machine("Dell Inc.", X5600, 2, &slots), Confidence::Low, 4, "0.0 0.1 0.2 0.0 1.0 1.1 1.2 1.0");
    let slots: Vec<&str> = "DIMM1_CPU0* DIMM7_CPU0* DIMM2_CPU0 DIMM8_CPU0 DIMM3_CPU0 DIMM9_CPU0 DIMM4_CPU0 \
        DIMM10_CPU0 DIMM5_CPU0 DIMM11_CPU0 DIMM6_CPU0 DIMM12_CPU0*"
        .split(' ')
        .collect();
    let precision = "0.0 0.0 0.1 0.1 0.2 0.2 0.3 0.3 0.4 0.4 0.5 0.5";
    check(&machine("Dell Inc.", GOLD, 1, &slots), Confidence::Medium, 2, precision);
}

#[test]
fn numbers_before_letters() {
    let slots =
        ["P1_DIMM1A*", "P1_DIMM1B", "P1_DIMM2A*", "P1_DIMM2B", "P1_DIMM3A*", "P1_DIMM3B", "P2_DIMM1A*"];
    check(&machine("Supermicro", X5600, 2, &slots), Confidence::Low, 4, "0.0 0.0 0.1 0.1 0.2 0.2 1.0");
    let slots = [
        "DIMM-1A*", "DIMM-2A", "DIMM-1B*", "DIMM-2B", "DIMM-1C*", "DIMM-2C", "DIMM-1D*", "DIMM-2D",
        "DIMM-1E", "DIMM-2E", "DIMM-1F", "DIMM-2F",
    ];
    let fujitsu = "0.0 0.0 0.1 0.1 0.2 0.2 1.0 1.0 1.1 1.1 1.2 1.2";
    check(&machine("FUJITSU", X5600, 2, &slots), Confidence::Medium, 4, fujitsu);
    let slots = ["1G", "2D*", "3A*", "4H", "5E*", "6B*", "7I", "8F", "9C*"];
    let slots = slots.map(|slot| format!("PROC 1 DIMM {slot}"));
    let slots = slots.each_ref().map(String::as_str);
    check(&machine("HP", X5600, 1, &slots), Confidence::Medium, 3, "0.0 0.0 0.0 0.1 0.1 0.1 0.2 0.2 0.2");
    // As many slots on a channel as channels: the order of the table decides.
    let slots = ["DIMM-2A*", "DIMM-1A*", "DIMM-2B*", "DIMM-1B*"];
    check(&machine("FUJITSU", E3, 1, &slots), Confidence::Low, 2, "0.0 0.0 0.1 0.1");
}

#[test]
fn running_numbers() {
    let slots = ["PROC 1 DIMM 1*", "PROC 1 DIMM 2", "PROC 1 DIMM 3*", "PROC 1 DIMM 4"];
    check(&machine("HPE", E3, 1, &slots), Confidence::Medium, 2, "0.0 0.0 0.1 0.1");
    let slots = ["CPU0-DIMM1|CPU0*", "CPU0-DIMM2|CPU0", "CPU0-DIMM3|CPU0*", "CPU0-DIMM4|CPU0*"];
    check(&machine("x", E5_2600, 1, &slots), Confidence::Medium, 3, "0.0 0.1 0.2 0.3");
    let slots = ["DIMM 1|CPU 1*", "DIMM 2|CPU 1", "DIMM 3|CPU 1*", "DIMM 4|CPU 1"];
    let inferred = infer(&machine("Lenovo", E3, 1, &slots));
    assert_eq!(inferred.confidence, Confidence::None);
    assert!(inferred.populated.why().is_some_and(|why| why.contains("only numbered")), "{inferred:?}");
}

#[test]
fn occupancy_where_the_names_report_nothing() {
    let full = ["DIMM 1|CPU 1*", "DIMM 2|CPU 1*", "DIMM 3|CPU 1*", "DIMM 4|CPU 1*"];
    check(&machine("Lenovo", E3, 1, &full), Confidence::Low, 2, "- - - -");
    check(
        &machine("Lenovo", E3, 1, &["DIMM 1*", "DIMM 2", "DIMM 3", "DIMM 4"]),
        Confidence::Low,
        1,
        "- - - -",
    );
    let inferred = infer(&machine("x", E3, 1, &["DIMM 1", "DIMM 2"]));
    assert_eq!(inferred.populated.why(), Some("no slot holds a module"));
}

#[test]
fn names_that_cannot_be() {
    let inferred = infer(&machine("x", E3, 1, &["A1_DIMM0*", "A1_DIMM1*", "A1_DIMM2", "A1_DIMM3"]));
    assert_eq!(inferred.populated.why(), Some("several slots have the same name"));
    let inferred = infer(&machine("x", E3, 1, &["ChannelA*", "ChannelB*", "ChannelC*"]));
    assert_eq!(
        inferred.populated.why(),
        Some("the names of the slots give 3 channels of a socket, the processor has 2")
    );
    let five = [
        "DIMM 0|CHANNEL A*",
        "DIMM 1|CHANNEL A*",
        "DIMM 2|CHANNEL A*",
        "DIMM 3|CHANNEL A",
        "DIMM 4|CHANNEL A",
    ];
    let inferred = infer(&machine("x", E3, 1, &five));
    assert_eq!(inferred.populated.why(), Some("the names of the slots put 5 of them on one channel"));
    assert!(infer(&machine("x", E3, 1, &["left*", "right*", "middle"])).populated.why().is_some());
}

fn any_slot() -> impl Strategy<Value = String> {
    "(DIMM_?|P[0-2][-_]|CPU[0-2]_|PROC 1 |NODE ?[0-3]|){1,2}[A-F]?[0-9]{0,2}[A-F]?(\\|(BANK \
     ?[0-9]|P[01]_Node[0-3]_Channel[0-5]|CHANNEL [A-D]|NODE [0-4]|[A-D]))?\\*?"
}

proptest! {
    /// Whatever the names: one channel for each slot or none, no more channels than the processor has, and
    /// never none where one is counted.
    #[test]
    fn any_board(
        slots in proptest::collection::vec(any_slot(), 0..40),
        sockets in 0usize..4,
        maker in "(Dell|HP|Supermicro|x)",
        processor in proptest::sample::select(vec![E5_2600, X5600, GOLD, E3, "?", "Intel(R) Xeon(R) CPU \
            E5410"]),
    ) {
        let slots: Vec<&str> = slots.iter().map(String::as_str).collect();
        let firmware = machine(&maker, processor, sockets, &slots);
        let inferred = infer(&firmware);
        prop_assert_eq!(inferred.of_modules.len(), slots.len());
        prop_assert_eq!(inferred.populated.known().is_some(), inferred.confidence != Confidence::None);
        let modules = firmware.modules.iter().zip(&inferred.of_modules).filter(|(module, _)| module.populated());
        let channels: BTreeSet<_> = modules.clone().filter_map(|(_, channel)| channel.known()).collect();
        if let (Some(count), false) = (inferred.populated.known(), channels.is_empty()) {
            prop_assert_eq!(usize::try_from(*count).ok(), Some(channels.len()));
            prop_assert!(modules.clone().all(|(_, channel)| channel.known().is_some()), "told for all or for \
                none");
        }
        if let (Some(own), true) = (processor::channels(processor).own(), sockets > 0) {
            for socket in 0..64 {
                let of_it = channels.iter().filter(|channel| channel.socket == socket).count();
                prop_assert!(of_it <= usize::try_from(own).unwrap_or(usize::MAX));
            }
        }
    }
}
