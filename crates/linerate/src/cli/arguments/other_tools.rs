//! Options of fio and iperf3 that somebody gives out of habit: answered with those that linerate has in their
//! place.

use super::Arguments;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use linerate_measure::measure::access::fio_job::FIO_KEYS;

/// An option of another tool, and what linerate has in its place.
struct OtherOption {
    tool: &'static str,
    /// The command that has ours.
    command: &'static str,
    names: Vec<String>,
    /// Ours; none: it needs no option.
    ours: &'static [&'static str],
    /// How they are written, or why there is none.
    note: &'static str,
}

/// iperf3's options (iperf3(1)), by the command that does what they ask for.
const IPERF3: [(&str, &[&str], &[&str], &str); 26] = [
    ("network", &["-c", "--client"], &["--iperf3"], "or --peer, to a `linerate agent`"),
    ("agent", &["-s", "--server"], &["--iperf3"], ""),
    ("network", &["-p", "--port"], &["--iperf3"], "HOST:PORT"),
    ("network", &["-t", "--time"], &["--seconds", "--repeats"], "the length of a window, and their number"),
    ("network", &["-i"], &["--interval"], "such as 1s"),
    ("network", &["-P", "--parallel"], &["--streams"], ""),
    ("network", &["-R", "--reverse"], &["--direction"], "receive"),
    ("network", &["--bidir"], &["--direction"], "both"),
    ("network", &["-u", "--udp"], &["--protocol"], "udp"),
    ("network", &["-b", "--bitrate", "--bandwidth"], &["--rate"], "such as 5G, over all streams"),
    ("network", &["--fq-rate"], &["--rate"], "such as 5G, over all streams"),
    (
        "network",
        &["-l", "--len", "--length"],
        &["--write", "--datagram"],
        "bytes a call (TCP), bytes a datagram (UDP)",
    ),
    ("network", &["-w"], &["--window"], ""),
    ("network", &["-C", "--congestion", "--linux-congestion"], &["--congestion-control"], ""),
    ("network", &["-A", "--affinity"], &["--pin"], "a list of CPUs"),
    ("network", &["-Z", "--zerocopy"], &["--method"], "sendfile, or zerocopy"),
    ("network", &["--skip-rx-copy"], &["--skip-receive-copy"], "shown beside what a program receives"),
    ("network", &["-F", "--file"], &["--source"], ""),
    ("network", &["-J", "--json-stream"], &["--json"], "with keys of linerate's own"),
    (
        "network",
        &["-B", "--bind", "--bind-dev"],
        &["--bind-device"],
        "each path's sockets on its own interface",
    ),
    ("network", &["-T", "--title"], &["--name"], ""),
    ("network", &["-O", "--omit"], &[], "the warm-up is left out of every figure"),
    ("network", &["-n", "--bytes", "-k", "--blockcount"], &[], "tests end by time: --seconds and --repeats"),
    ("network", &["-4", "--version4", "-6", "--version6"], &[], "the address of the peer decides it"),
    ("network", &["--get-server-output"], &[], "the figures of both ends are in every result"),
    (
        "agent",
        &["-D", "--daemon", "-1", "--one-off"],
        &[],
        "`linerate agent` runs until Ctrl-C; systemd can start it",
    ),
];

fn table() -> Vec<OtherOption> {
    let fio = FIO_KEYS.iter().map(|key| OtherOption {
        tool: "fio",
        command: "disk",
        names: key.names.iter().map(|name| format!("--{name}")).collect(),
        ours: key.ours,
        note: key.note,
    });
    let iperf3 = IPERF3.iter().map(|(command, names, ours, note)| OtherOption {
        tool: "iperf3",
        command,
        names: names.iter().map(|name| name.to_string()).collect(),
        ours,
        note,
    });
    fio.chain(iperf3).collect()
}

/// One sentence where the words hold an option of another tool, none where the error is another one.
/// `command` is the command that they were given to.
pub(crate) fn answer(error: &clap::Error, command: &str) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    let word = word.split([' ', '=']).next().unwrap_or(word);
    match error.kind() {
        ErrorKind::UnknownArgument => sentence(word, command),
        // `--buffered=1`
        ErrorKind::TooManyValues => {
            let known = table().iter().any(|row| row.names.iter().any(|name| name == word));
            known.then(|| format!("{word} takes no value here: give it alone, or leave it away"))
        }
        _ => None,
    }
}

fn sentence(word: &str, command: &str) -> Option<String> {
    let named =
        |row: &&OtherOption| row.names.iter().any(|name| name.replace('_', "-") == word.replace('_', "-"));
    let table = table();
    // What two tools call the same is meant as the one whose command it is.
    let row = table.iter().filter(named).max_by_key(|row| row.command == command)?;
    let name = format!("{}'s {word}", row.tool);
    let note = if row.note.is_empty() { String::new() } else { format!(": {}", row.note) };
    if row.ours.is_empty() {
        return Some(format!("{name} has no option here{note}"));
    }
    let mut definitions = Arguments::command();
    definitions.build();
    let has = |command: &str| {
        definitions.find_subcommand(command).is_some_and(|command| has_all(command, row.ours))
    };
    let here = if has(command) { "here".into() } else { format!("of `linerate {}`", row.command) };
    Some(format!("{name} is {} {here}{note}", row.ours.join(" and ")))
}

fn has_all(command: &Command, options: &[&str]) -> bool {
    let has = |option: &&str| command.get_arguments().any(|arg| arg.get_long() == option.strip_prefix("--"));
    options.iter().all(has)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    /// The answer to these words, which must be refused.
    fn answered(words: &[&str]) -> Option<String> {
        let refused = Arguments::try_parse_from([&["linerate"], words].concat()).err()?;
        answer(&refused, words.first().copied().unwrap_or_default())
    }

    #[test]
    fn every_option_of_another_tool_is_answered_by_one_that_is_there() {
        let mut definitions = Arguments::command();
        definitions.build();
        for row in table() {
            let command = definitions.find_subcommand(row.command).expect(row.command);
            assert!(has_all(command, row.ours), "{} has not all of {:?}", row.command, row.ours);
            for name in &row.names {
                let ours = |arg: &clap::Arg| {
                    Some(name.as_str()) == arg.get_long().map(|long| format!("--{long}")).as_deref()
                        || Some(name.as_str()) == arg.get_short().map(|short| format!("-{short}")).as_deref()
                };
                if command.get_arguments().any(ours) {
                    continue; // ours, too: clap reads it
                }
                let message =
                    answered(&[row.command, name, "1"]).unwrap_or_else(|| panic!("{name} is not answered"));
                assert!(message.starts_with(&format!("{}'s {name}", row.tool)), "{message}");
                assert!(
                    row.ours.iter().all(|option| message.contains(option)) && message.lines().count() == 1,
                    "{message}"
                );
            }
        }
    }

    #[test]
    fn the_sentence_names_our_option_and_the_command_that_has_it() {
        for (words, expected) in [
            (&["disk", "--bs", "4k"][..], "fio's --bs is --transfer here"),
            (&["disk", "--bs=4k"], "fio's --bs is --transfer here"),
            (&["disk", "--iodepth=16"], "fio's --iodepth is --queue-depth here"),
            (
                &["disk", "--time-based"],
                "fio's --time-based is --seconds here: with it a measurement ends by time",
            ),
            (
                &["--rw=randread"],
                "fio's --rw is --access and --pattern of `linerate disk`: --access read --pattern random for randread",
            ),
            (&["network", "--parallel", "8"], "iperf3's --parallel is --streams here"),
            (&["network", "-R"], "iperf3's -R is --direction here: receive"),
            (&["-s"], "iperf3's -s is --iperf3 of `linerate agent`"),
            (&["run", "--runtime", "10"], "fio's --runtime is --seconds here"),
            (
                &["disk", "--direct=1"],
                "fio's --direct has no option here: reads and writes go past the page cache unless --buffered is given",
            ),
            (&["disk", "--buffered=1"], "--buffered takes no value here: give it alone, or leave it away"),
        ] {
            assert_eq!(answered(words).as_deref(), Some(expected), "{words:?}");
        }
        assert_eq!(answered(&["disk", "--jump"]), None, "clap's own words serve");
        assert_eq!(answered(&["disk", "--seconds=much"]), None);
    }
}
