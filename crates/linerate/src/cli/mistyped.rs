//! A first word that is no command: which one was meant, or where a former one went.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Former commands, and what does their work now.
const FORMER: [(&str, &str); 3] = [
    ("capture", "`linerate probe --capture FILE` records this machine"),
    ("diagnose", "`linerate report RESULT` judges it again; --json has that under “diagnosis”"),
    ("rates", "`linerate plan rates` prints them"),
];

/// One sentence on a word that is no command; none where the error is another one.
pub(super) fn answer(error: &clap::Error, definition: &Command) -> Option<String> {
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
            let message = sentence(word, &definition);
            assert_eq!(message, format!("{word} is not a command: did you mean `linerate {meant}`?"));
        }
        assert_eq!(
            sentence("frobnicate", &definition),
            "frobnicate is not a command; `linerate --help` lists them"
        );
        let of_wall = sentence("shwo", &wall_definition());
        assert!(of_wall.ends_with("did you mean `linerate-wall show`?"), "{of_wall}");
        for (word, _) in FORMER {
            let message = sentence(word, &definition);
            assert!(message.starts_with(word) && message.lines().count() == 1, "{message}");
            assert!(definition.find_subcommand(word).is_none(), "{word} is there");
        }
    }
}
