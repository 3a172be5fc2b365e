//! How a help text is laid out: commands in groups, options under headings, what people use most first.

use clap::{Arg, ArgAction, Command};
use std::fmt::Write as _;

/// All commands, in the order in which somebody meets them; a test knows that none is missing.
const GROUPS: [(&str, &str); 5] = [
    ("Measure", "run disk network memory load fleet agent check"),
    ("Look", "probe plan watch explain reproduce"),
    ("Results", "list report compare"),
    ("Move", "copy get put serve wall"),
    ("Change", "tune"),
];

/// A command with fewer options shows them in one list.
const MANY_OPTIONS: usize = 12;
/// What every command takes, at the end of each.
pub(super) const EVERYWHERE: &str = "Every command";
/// What no heading below names.
const ADVANCED: &str = "Advanced";

/// An option means the same in every command, and so it has one heading.
const HEADINGS: [(&str, &str); 5] = [
    (
        "From where, to where",
        "hosts hostfile servers source amount peer key-file iperf3 no-receiver nic yes flow \
         protocol direction sink sink-limit screen screens layout server listen \
         page machine measured from to size tile interface sdp",
    ),
    (
        "What is done",
        "stages access engine pattern transfer queue-depth workers streams \
         congestion-control block buffered fsync reorder destroy-data sync every rate find-rate \
         keep prepare write datagram method fio-job remove move add set target each rtt loss window \
         writable tls full-screen headless verify scaling tax observe fps place exclude dry-run replace",
    ),
    ("How long", "seconds budget repeats rounds steady-state once frames until-silent"),
    ("Limits", "rate-limit idle connections limit allow token-file timeout"),
    ("Output", "output format name access-log interval expect junit expectations html"),
];

/// The template of the help of all commands.
pub(super) fn grouped(command: &Command) -> String {
    let head = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    let mut text = "{about}\n\n{usage-heading} {usage}\n".to_string();
    for (group, names) in GROUPS {
        // To write to a string cannot fail.
        let _ = writeln!(text, "\n{head}{group}:{head:#}");
        for name in names.split_whitespace() {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name:<9}{literal:#} {about}");
        }
    }
    text + &format!("\n{head}Options:{head:#}\n{{options}}{{after-help}}")
}

/// A command with its options in their places.
pub(super) fn laid_out(command: Command) -> Command {
    let visible =
        command.get_arguments().filter(|arg| arg.get_long().is_some() && !arg.is_hide_set()).count();
    let command = command.mut_args(|arg| match arg.get_long().map(place) {
        Some((heading, order)) if arg.get_help_heading().is_none() && visible >= MANY_OPTIONS => {
            arg.help_heading(heading).display_order(order)
        }
        Some((_, order)) if arg.get_help_heading().is_none() => arg.display_order(order),
        _ => arg,
    });
    let help = Arg::new("help").short('h').long("help").action(ArgAction::Help);
    command.disable_help_flag(true).arg(
        help.help("Print help; -h is a summary, --help has all of it")
            .help_heading(EVERYWHERE)
            .display_order(1001),
    )
}

/// The heading of an option, and its place among all.
fn place(option: &str) -> (&'static str, usize) {
    let mut before = 0;
    for (heading, options) in HEADINGS {
        if let Some(at) = options.split_whitespace().position(|name| name == option) {
            return (heading, before + at);
        }
        before += options.split_whitespace().count();
    }
    (ADVANCED, before)
}

#[cfg(test)]
mod tests {
    use super::super::definition::definition;
    use super::*;

    #[test]
    fn every_command_is_in_one_group_and_fits_a_terminal() {
        let mut whole = definition();
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.split_whitespace()).collect();
        for command in whole.get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            assert_eq!(grouped.iter().filter(|grouped| **grouped == name).count(), 1, "{name}");
        }
        let help = whole.render_help().to_string();
        for name in grouped {
            assert!(help.contains(&format!("\n  {name} ")), "{name}: {help}");
        }
        let groups = help.lines().skip_while(|line| !line.starts_with(GROUPS[0].0));
        for line in groups.take_while(|line| !line.starts_with("Options:")) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn the_options_of_a_large_command_are_under_headings_and_those_of_every_command_last() {
        for (name, first) in
            [("run", "source"), ("disk", "source"), ("network", "source"), ("fleet", "hosts")]
        {
            let mut whole = definition();
            whole.build();
            let help = whole.find_subcommand_mut(name).expect(name).render_help().to_string();
            let heads: Vec<&str> =
                help.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect();
            let known: Vec<String> = HEADINGS
                .iter()
                .map(|(head, _)| head)
                .chain([&ADVANCED, &EVERYWHERE])
                .map(|head| format!("{head}:"))
                .collect();
            let heads: Vec<&&str> =
                heads.iter().filter(|head| **head != "Arguments:" && **head != "Examples:").collect();
            let in_order: Vec<&String> =
                known.iter().filter(|head| heads.iter().any(|shown| **shown == head.as_str())).collect();
            assert_eq!(
                heads.iter().map(|head| head.to_string()).collect::<Vec<_>>(),
                in_order.into_iter().cloned().collect::<Vec<_>>(),
                "{name}"
            );
            let options: Vec<&str> = help.lines().filter(|line| line.trim_start().starts_with('-')).collect();
            assert!(
                options.first().is_some_and(|line| line.contains(&format!("--{first}"))),
                "{name}: {options:?}"
            );
            assert!(options.last().is_some_and(|line| line.contains("--help")), "{name}: {options:?}");
        }
    }
}
