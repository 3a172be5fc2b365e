//! The control page, opened in a browser where somebody sits in front of one.

use crate::cli::arguments::wall::DemoArgs;
use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Opens it where a person started the demo on a display; where there is no xdg-open, the printed address
/// remains.
pub(super) fn open(args: &DemoArgs, url: &str) {
    if !is_wanted(args, std::io::stdin().is_terminal(), std::env::var_os("DISPLAY").is_some()) {
        return;
    }
    let mut command = Command::new("xdg-open");
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // In a group of its own: Ctrl-C ends the demo and not the browser.
    let _ = command.process_group(0).spawn();
}

fn is_wanted(args: &DemoArgs, terminal: bool, display: bool) -> bool {
    terminal && display && !args.no_browser
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: DemoArgs,
    }

    #[test]
    fn a_browser_opens_only_for_a_person_on_a_display() {
        let plain = Line::parse_from(["demo"]).args;
        assert!(is_wanted(&plain, true, true));
        assert!(!is_wanted(&plain, false, true) && !is_wanted(&plain, true, false));
        assert!(!is_wanted(&Line::parse_from(["demo", "--no-browser"]).args, true, true));
    }
}
