//! A first word that is no command: which one was meant, or where a former one went; and where a former option went.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Former commands, and what does their work now.
const FORMER: [(&str, &str); 3] = [
    ("capture", "`linerate probe --capture FILE` records this machine"),
    ("diagnose", "`linerate report RESULT` judges it again; --json has that under “diagnosis”"),
    ("rates", "`linerate plan rates` prints them"),
];

const COPY: &str = "`linerate copy SRC [USER@]HOST:DST` moves files to another host or from it, over ssh; to have another \
                    host do this command, start it there (ssh HOST linerate …)";
const LISTING: &str = "name the file alone, `linerate probe FILE…`, or --machine FILE, repeated for several; what printed it \
                       is known by its content";

/// Former options of commands, and what does their work now.
const FORMER_OPTIONS: [(&str, &str, &str); 28] = [
    ("--lspci", "probe plan wall", LISTING),
    ("--dmidecode", "probe plan wall", LISTING),
    ("--lstopo", "probe plan wall", LISTING),
    ("--nccl", "probe plan wall", LISTING),
    ("--root", "probe", "name the recorded tree alone: `linerate probe DIR`"),
    (
        "--root",
        "plan wall",
        "--machine DIR reads a recorded tree, `linerate plan raid --check DIR` its arrays",
    ),
    ("--on", "get put serve", COPY),
    (
        "--ca",
        "get put run",
        "the authorities in the file that SSL_CERT_FILE names in the environment are believed",
    ),
    ("--dotfiles", "get", "fetch to a folder of its own with --output"),
    ("--scratch", "run check", "--source DIR writes a scratch file in that directory"),
    (
        "--awake",
        "run wall",
        "`cpupower idle-set --disable-by-latency 0`, as root, keeps cores from deep sleep",
    ),
    ("--mtu", "plan", "write --set mtu=BYTES"),
    ("--device", "plan", "--disks takes the disks themselves: --disks /dev/sdb,/dev/sdc"),
    ("--read-share", "disk load", "write --access mixed:PERCENT"),
    ("--segments", "disk", "--amount is what all blocks of a worker have together"),
    ("--discard", "disk", "write --prepare discard"),
    ("--fill", "disk", "write --prepare fill"),
    ("--drop-caches", "disk", "write --prepare drop-caches"),
    ("--stores", "memory", "kernels that store are measured through the caches and past them"),
    ("--send-buffer", "network", "--window is of both ends"),
    ("--receive-buffer", "network", "--window is of both ends"),
    ("--group", "fleet", "a bisection with --fabric is one of its racks"),
    ("--headless", "wall", "write --window none"),
    ("--size", "wall", "the stream itself has the size, or its description (--sdp)"),
    ("--list-outputs", "wall", "`xrandr --listmonitors` lists them"),
    ("--no-page", "wall", "write --page none"),
    ("--ffmpeg", "wall", "the ffmpeg that comes first in PATH is used"),
    ("--against", "wall", "--verify holds frames against their stamps, or against the server's checksums"),
];

/// One sentence on a word that is no command, or no option of this one any more; none where the error is another one.
pub(super) fn answer(error: &clap::Error, command: &str, definition: &Command) -> Option<String> {
    if let (ErrorKind::UnknownArgument, Some(ContextValue::String(given))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    {
        let is_former = |former: &&(&str, &str, &str)| {
            former.0 == given && former.1.split_whitespace().any(|name| name == command)
        };
        let (option, _, instead) = FORMER_OPTIONS.iter().find(is_former)?;
        return Some(format!("{option} has gone: {instead}"));
    }
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    // A word below a command has clap's own answer.
    let is_first = std::env::args().nth(1).as_deref() == Some(word);
    is_first.then(|| sentence(word, definition))
}

fn sentence(word: &str, definition: &Command) -> String {
    if let Some((_, instead)) = FORMER.iter().find(|(former, _)| *former == word) {
        return format!("{word} is part of another command: {instead}");
    }
    let program = definition.get_name();
    let commands =
        definition.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name);
    let distances = commands.map(|name| (strsim::osa_distance(word, name), name));
    // One slip in a short word, more in a long one.
    let near = distances.filter(|(distance, name)| *distance <= 1 + name.len() / 5).min();
    match near {
        Some((_, name)) => format!("{word} is not a command: did you mean `{program} {name}`?"),
        None => format!("{word} is not a command; `{program} --help` lists them"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::definition::{definition, wall_definition};
    use super::*;

    #[test]
    fn a_mistyped_word_gets_the_command_that_was_meant() {
        let definition = definition();
        for (word, meant) in [
            ("rnu", "run"),
            ("dsik", "disk"),
            ("netwrok", "network"),
            ("repotr", "report"),
            ("lsit", "list"),
            ("compair", "compare"),
        ] {
            let said = sentence(word, &definition);
            assert_eq!(said, format!("{word} is not a command: did you mean `linerate {meant}`?"));
        }
        assert_eq!(
            sentence("frobnicate", &definition),
            "frobnicate is not a command; `linerate --help` lists them"
        );
        let of_wall = sentence("shwo", &wall_definition());
        assert!(of_wall.ends_with("did you mean `linerate-wall show`?"), "{of_wall}");
        for (option, commands, _) in FORMER_OPTIONS {
            for command in commands.split_whitespace() {
                let parsed = match command {
                    "wall" => wall_definition().try_get_matches_from(["linerate-wall", "show", option, "1"]),
                    _ => definition.clone().try_get_matches_from(["linerate", command, option, "1"]),
                };
                let said = answer(&parsed.expect_err(option), command, &definition).expect(option);
                assert!(said.starts_with(option) && said.lines().count() == 1, "{said}");
            }
        }
        for (word, _) in FORMER {
            let said = sentence(word, &definition);
            assert!(said.starts_with(word) && said.lines().count() == 1, "{said}");
            assert!(definition.find_subcommand(word).is_none(), "{word} is there");
        }
    }
}
