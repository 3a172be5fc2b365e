//! The whole command line: the options of `arguments`, laid out, with examples and the exit status at the end
//! of every help. A first word that is not a command is answered with the one that was meant, or with where a
//! former one went.

use super::arguments::{Arguments, WallArguments, other_tools};
use super::help::{Example, examples_of, grouped, laid_out, written_for};
use super::output::Output;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};

/// Told at the end of every help text.
const EXIT_STATUS: &str = "Exit status: 0 done; 1 measured, but something failed on the way \
                                      (partial results are saved and say so); \
2 wrong use; 3 the machine lacks what was asked for (a source, a peer, a permission); 4 (check) slower than usual; \
5, 6 (--expect) a rule failed, a rule cannot be judged.";

/// What `linerate` alone says.
const START: &str = "\
How fast can this server move bytes from its disks to its network, what limits
it, what do I change? Start with one of these; none of them changes a setting:

  linerate run                    this machine: memory, disks, network and the
                                  path through all of them, in under a minute
  linerate run --peer ssh://HOST  the same to another host that has linerate
  linerate watch                  what this server does now, and what is full

All commands: linerate --help. One of them with examples: linerate run --help.
";

/// The parser, from which also come `--help`, the man pages and the completions.
pub fn definition() -> Command {
    let command =
        dressed(Arguments::command().mut_subcommand("tune", of_all_that_is_applied), "", "linerate");
    let template = grouped(&command);
    command.help_template(template)
}

/// `tune undo` and `persist` refuse what chooses settings; their help does not list it.
fn of_all_that_is_applied(mut tune: Command) -> Command {
    let chooses =
        |id: &str| tune.get_arguments().find(|arg| arg.get_id() == id).map(|arg| arg.clone().hide(true));
    let hidden: Vec<_> =
        ["rate", "rtt", "stage", "finding", "setting"].into_iter().filter_map(chooses).collect();
    for name in ["undo", "persist"] {
        tune = tune.mut_subcommand(name, |below| below.args(&hidden));
    }
    tune
}

/// The same of the wall's own program.
pub fn wall_definition() -> Command {
    dressed(WallArguments::command(), "wall", "linerate-wall")
}

/// The words that the program was given. Wrong ones end it with status 2; options of fio and iperf3 are
/// answered with those that linerate has in their place. Without any it says where to start.
pub fn parse(output: &Output) -> Arguments {
    if std::env::args_os().len() <= 1 {
        let printed = output.print(START);
        std::process::exit(i32::from(printed.is_err()));
    }
    try_parse_from(std::env::args_os()).unwrap_or_else(|error| {
        let command = std::env::args_os().nth(1).and_then(|word| word.into_string().ok()).unwrap_or_default();
        refused(&error, &command, &definition(), output)
    })
}

fn refused(error: &clap::Error, command: &str, definition: &Command, output: &Output) -> ! {
    let sentence = mistyped_word(error, definition);
    let Some(sentence) = sentence.or_else(|| other_tools::answer(error, command)) else {
        output.refuse(error)
    };
    output.complain(&sentence);
    std::process::exit(2)
}

/// The words that `linerate-wall` was given, perhaps by `linerate wall`.
pub fn parse_wall(output: &Output) -> WallArguments {
    parsed(wall_definition, std::env::args_os())
        .unwrap_or_else(|error| refused(&error, "wall", &wall_definition(), output))
}

/// The words of a command line, parsed.
pub fn try_parse_from(
    words: impl IntoIterator<Item = impl Into<std::ffi::OsString> + Clone>,
) -> clap::error::Result<Arguments> {
    parsed(definition, words)
}

fn parsed<A: FromArgMatches>(
    definition: fn() -> Command,
    words: impl IntoIterator<Item = impl Into<std::ffi::OsString> + Clone>,
) -> clap::error::Result<A> {
    let mut whole = definition();
    let matches = whole.try_get_matches_from_mut(words)?;
    let error = conflict(&mut whole, &matches);
    error.map_or_else(|| A::from_arg_matches(&matches).map_err(|error| error.format(&mut whole)), Err)
}

/// An option before a command's name and one after it that exclude each other, which clap compares only where both stand
/// behind the same name.
fn conflict(command: &mut Command, matches: &ArgMatches) -> Option<clap::Error> {
    if let Some((name, below)) = matches.subcommand() {
        return conflict(command.find_subcommand_mut(name)?, below);
    }
    let given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let given: Vec<_> = command.get_arguments().filter(|arg| given(arg.get_id().as_str())).collect();
    let excluded = |one| command.get_arg_conflicts_with(one).into_iter().find(|other| given.contains(other));
    let (one, other) = given.iter().find_map(|one| Some((*one, excluded(one)?)))?;
    let sentence = format!("the argument '{one}' cannot be used with '{other}'");
    Some(command.error(ErrorKind::ArgumentConflict, sentence))
}

/// A command, and all below it, with its examples and the exit status.
fn dressed(command: Command, command_path: &str, program: &str) -> Command {
    let examples = examples_of(command_path);
    let below: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_string()).collect();
    let mut command = laid_out(command).after_help(EXIT_STATUS);
    if !examples.is_empty() {
        command = command.after_long_help(format!("{}\n\n{EXIT_STATUS}", text_of(examples, program)));
    }
    for name in below {
        let command_path =
            if command_path.is_empty() { name.clone() } else { format!("{command_path} {name}") };
        command = command.mut_subcommand(&name, |sub| dressed(sub, &command_path, program));
    }
    command
}

fn text_of(examples: &[Example], program: &str) -> String {
    let mut text = "Examples:".to_string();
    for (what, line) in examples {
        if !what.is_empty() {
            text.push_str(&format!("\n  # {what}"));
        }
        text.push_str(&format!("\n  {}", written_for(program, line)));
    }
    text
}

/// Former commands, and what does their work now.
const FORMER_COMMANDS: [(&str, &str); 3] = [
    ("capture", "`linerate probe --capture FILE` records this machine"),
    ("diagnose", "`linerate report RESULT` judges it again; --json has that under “diagnosis”"),
    ("rates", "`linerate plan rates` prints them"),
];

/// One sentence on a word that is not a command; none where the error is another one.
fn mistyped_word(error: &clap::Error, definition: &Command) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    // A word below a command has clap's own answer.
    let is_first = std::env::args().nth(1).as_deref() == Some(word);
    is_first.then(|| sentence(word, definition))
}

fn sentence(word: &str, definition: &Command) -> String {
    if let Some((_, instead)) = FORMER_COMMANDS.iter().find(|(former, _)| *former == word) {
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
    use clap::error::ErrorKind;

    /// Those that say something by themselves, with all that is below them.
    fn commands(command: &Command, words: &str, found: &mut Vec<String>) {
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let words = format!("{words} {}", sub.get_name()).trim_start().to_string();
            commands(sub, &words, found);
            found.push(words);
        }
    }

    #[test]
    fn the_definitions_agree_with_themselves() {
        definition().debug_assert();
        wall_definition().debug_assert();
    }

    #[test]
    fn the_help_says_how_much_is_kept() {
        use linerate_report::results::{MOST_BYTES, MOST_RESULTS, MOST_TRANSFERS};
        let mut all = definition();
        let list = all.find_subcommand_mut("list").expect("a command");
        let help = list.render_long_help().to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        let bounds = format!(
            "the newest {MOST_RESULTS} results of each command and {MOST_TRANSFERS} transfers of get and of put, {} MiB in all",
            MOST_BYTES >> 20
        );
        assert!(help.contains(&bounds), "{help}");
        let documented = include_str!("../../../../docs/run.md").replace('\n', " ").replace('`', "");
        assert!(documented.contains(&bounds), "docs/run.md: {bounds}");
    }

    #[test]
    fn every_command_has_examples_and_each_of_them_parses() {
        let mut found = vec![String::new()];
        commands(&definition(), "", &mut found);
        for words in found.iter().filter(|words| !words.starts_with("wall control ")) {
            let examples = examples_of(words);
            assert!(!examples.is_empty(), "linerate {words} has no example");
            for (_, line) in examples {
                let own = written_for("linerate-wall", line);
                let refused = try_parse_from(line.split(' ')).err();
                let refused = match own.starts_with("linerate-wall ") {
                    true => refused.or(wall_definition().try_get_matches_from(own.split(' ')).err()),
                    false => refused,
                };
                let refused = refused.filter(|error| error.kind() != ErrorKind::DisplayHelp);
                assert!(refused.is_none(), "`{line}`: {}", refused.expect("one"));
                assert!(
                    words.is_empty() || line.starts_with(&format!("linerate {words}")),
                    "{words}: `{line}`"
                );
            }
        }
    }

    #[test]
    fn what_linerate_alone_says_fits_a_terminal_and_parses() {
        let lines = START.lines().filter_map(|line| line.trim().strip_prefix("linerate ")).count();
        assert_eq!(lines, 3);
        for line in START.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(try_parse_from(["linerate", "run", "--peer", "ssh://HOST"]).is_ok());
    }

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
        for (word, _) in FORMER_COMMANDS {
            let message = sentence(word, &definition);
            assert!(message.starts_with(word) && message.lines().count() == 1, "{message}");
            assert!(definition.find_subcommand(word).is_none(), "{word} is there");
        }
    }
}
