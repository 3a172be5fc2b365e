//! A wall over hosts of known speed: each screen as predicted, and the one that cannot take its tiles is named.

use super::{measured, patterns::fleet, sentence};
use crate::support::lab::Lab;
use crate::support::neighbours::undisturbed;

/// Two servers, each a row of three tiles of 40 Mb/s, one for each of three hosts.
fn layout() -> String {
    let mut text = String::from("grid = \"3x2\"\ntile = \"320x217\"\n");
    for (row, server) in ["h1", "h2"].iter().enumerate() {
        text += &format!("[[server]]\nname = \"{server}\"\ncontrol = \"{server}:7412\"\n");
        for column in 0..3 {
            text += &format!(
                "[[screen]]\ntile = \"r{row}c{column}\"\nto = [\"h{}:{}\"]\nserver = \"{server}\"\n",
                column + 3,
                5004 + row
            );
        }
    }
    text
}

#[test]
fn names_the_screen_that_cannot_take_its_tiles() {
    undisturbed("what the screens of a wall take", 2, slow_screen);
}

fn slow_screen() {
    let Some(lab) = Lab::up("wall", &["--hosts", "5", "--rate", "200", "--slow", "h5:receive:40"]) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("wall.toml");
    std::fs::write(&file, layout()).expect("the layout");
    let result =
        measured(&mut fleet(&lab, &["wall", "--hosts", "h[1-5]", "--wall", &file.to_string_lossy()]), 0);
    let says = sentence(&result);
    assert!(says.starts_with("6 tiles from 2 servers to 3 hosts: "), "{says}");
    assert!(
        says.contains("h5 receives 0.") && says.contains(" of what r0c2, r1c2 take, as follows"),
        "{says}"
    );
    assert!(says.contains("limited by what h5 receives"), "{says}");
    let slow = result["verdict"]["members"].as_array().expect("members");
    assert_eq!(slow.len(), 1, "{says}");
    // 40 Mb/s of 80, less the headers.
    let wall = &result["verdict"]["wall"];
    let ratio = slow[0]["ratio"].as_f64().expect("a ratio");
    assert!(
        (0.4..0.6).contains(&ratio) && (0.4..0.6).contains(&wall["headroom"].as_f64().unwrap_or(0.0)),
        "{wall}"
    );
    assert_eq!(wall["short"].as_array().map(Vec::len), Some(2), "{wall}");
}
