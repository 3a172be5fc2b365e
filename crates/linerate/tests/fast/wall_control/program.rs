//! `linerate wall control`.

use super::*;
use crate::support::process::{Ends, ProcessEnd};
use std::io::Write;
use std::process::Stdio;

fn control(hub: &Hub, arguments: &[&str], input: Option<&str>) -> ProcessEnd {
    let mut child = crate::support::linerate()
        .args(["wall", "control", "--server", &hub.addresses()[0].to_string()])
        .args(arguments)
        .env("LINERATE_KEY", key().to_hex())
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        stdin.write_all(input.as_bytes()).expect("its input");
    }
    child.ended()
}

#[test]
fn every_verb_does_what_it_says() {
    let (fake, hub) = served(5, 3);
    let verbs: [(&[&str], ControlRequest); 8] = [
        (&["pause"], ControlRequest::Pause),
        (&["play"], ControlRequest::Play),
        (&["seek", "99"], ControlRequest::Seek { frame: 99 }),
        (&["speed", "-0.5"], ControlRequest::Speed { speed: -0.5 }),
        (&["loop", "off"], ControlRequest::Loop { on: false }),
        (&["loop", "on"], ControlRequest::Loop { on: true }),
        (&["view", "-10,20,1.5"], ControlRequest::View(View { left: -10.0, top: 20.0, zoom: 1.5 })),
        (&["open", "holiday"], ControlRequest::Open { movie: "holiday".into() }),
    ];
    for (arguments, request) in verbs {
        let output = control(&hub, arguments, None);
        output.gives(0);
        assert_eq!(fake.asked().last(), Some(&request));
    }
    fake.trouble(true);
    let status = control(&hub, &["status"], None).stdout;
    let parts = "of 2880, 24 frames/s|eth3|no carrier|10.0.2.14:5004|1824|limited by: eth3|no power meter";
    for expected in parts.split('|') {
        assert!(status.contains(expected), "{expected}:\n{status}");
    }
    fake.odd_names();
    // The hub gives the same status to all who ask within 40 ms.
    std::thread::sleep(Duration::from_millis(200));
    let odd = control(&hub, &["status"], None).stdout;
    assert!(odd.contains("<img") && !odd.contains('\u{202e}'), "{odd}");
    let json = control(&hub, &["status", "--json"], None).stdout;
    assert!(matches!(serde_json::from_str(&json), Ok(ControlMessage::Status(_))), "{json}");
    let movies = control(&hub, &["movies"], None).stdout;
    assert!(movies.contains("  holiday  12800x4800 pixels, 2880 frames at 24 frames/s"), "{movies}");
    let refused = control(&hub, &["open", "none"], None);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(3), 0));
    assert!(refused.stderr.contains("the server says: there is no movie"));
}

#[test]
fn lines_go_in_and_lines_come_out() {
    let (fake, hub) = served(1, 1);
    let input = "{\"do\":\"pan\",\"right\":1,\"down\":0,\"zoom\":1}\n\n{\"do\":\"fly\"}\n{\"do\":\"movies\"}\n{\"do\":\"status\"}\n";
    let output = control(&hub, &[], Some(input));
    output.gives(0);
    let told: Vec<ControlMessage> =
        output.stdout.lines().map(|line| serde_json::from_str(line).expect("a message")).collect();
    let count = |wanted: fn(&ControlMessage) -> bool| told.iter().filter(|message| wanted(message)).count();
    assert_eq!(told.len(), 4, "{told:?}");
    assert_eq!(count(|message| matches!(message, ControlMessage::Done)), 1);
    assert_eq!(count(|message| matches!(message, ControlMessage::Refused { why } if why.contains("fly"))), 1);
    assert_eq!(
        count(|message| matches!(message, ControlMessage::Movies { .. } | ControlMessage::Status(_))),
        2
    );
    assert_eq!(fake.asked(), [ControlRequest::Pan { right: 1.0, down: 0.0, zoom: 1.0 }]);
}

#[test]
fn wrong_words_and_a_wrong_key_are_reported() {
    let (fake, hub) = served(1, 1);
    for (arguments, status) in
        [(&["seek", "-1"][..], 2), (&["view", "1,2"], 2), (&["--server", "a b", "play"], 2)]
    {
        assert_eq!(control(&hub, arguments, None).status.code(), Some(status), "{arguments:?}");
    }
    let output =
        crate::support::linerate().args(["wall", "control", "play"]).env_remove("LINERATE_KEY").ended();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stderr.contains("--key-file"));
    let output = crate::support::linerate()
        .args(["wall", "control", "--server", &hub.addresses()[0].to_string(), "play"])
        .env("LINERATE_KEY", "5b".repeat(32))
        .ended();
    assert_eq!(output.status.code(), Some(3));
    assert!(output.stderr.contains("another key"), "{}", output.stderr);
    assert!(fake.asked().is_empty());
}
