//! The first minutes: `linerate` alone, an agent without options, the man pages.

use crate::support::agent::listening;
use crate::support::process::Ends;
use crate::support::{keep_apart, linerate};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

#[test]
fn linerate_alone_says_where_to_start() {
    let output = linerate().ended();
    let said = &output.stdout;
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    for start in ["linerate run ", "linerate run --peer ssh://", "linerate watch", "linerate --help"] {
        assert!(said.contains(start), "{start}: {said}");
    }
}

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode()
        & 0o777
}

#[test]
fn an_agent_and_its_client_need_no_key_to_be_named() {
    let home = tempfile::tempdir().expect("a folder");
    let config = home.path().join("config");
    let mut command = linerate();
    command.args(["agent", "--listen", "127.0.0.1:0"]).env("XDG_CONFIG_HOME", &config);
    let (mut agent, address) = listening(&mut command);
    let key = config.join("linerate/key");
    assert_eq!((mode_of(&key), mode_of(&config.join("linerate"))), (0o600, 0o700));
    let mut client = linerate();
    client.args(["network", "--peer", &address.to_string(), "--protocol", "tcp", "--seconds", "0.1"]);
    client.args(["--repeats", "1", "--no-save"]).env("XDG_CONFIG_HOME", &config);
    let output = client.ended();
    agent.kill().expect("killed");
    agent.wait().expect("ended");
    output.gives(0);
}

#[test]
fn every_man_page_has_what_a_reader_looks_for() {
    let folder = tempfile::tempdir().expect("a folder");
    linerate().args(["generate", "man"]).arg(folder.path()).ended().gives(0);
    let mut pages = 0;
    for entry in std::fs::read_dir(folder.path()).expect("a folder") {
        let path = entry.expect("an entry").path();
        let (name, page) = (path.display().to_string(), std::fs::read_to_string(&path).expect("text"));
        pages += 1;
        for head in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "FILES", "SEE ALSO"] {
            assert!(
                page.contains(&format!(".SH {head}\n")) || page.contains(&format!(".SH \"{head}\"\n")),
                "{name}: {head}"
            );
        }
        assert!(page.contains(".SH EXAMPLES\n") && page.contains(".TP\n5, 6\n"), "{name}");
        assert!(!page.contains(".SH EXTRA") && !name.contains("linerate-generate"), "{name}");
    }
    assert!(pages >= 35, "{pages}");
}

/// Half a second of sending, in two windows.
const BRIEFLY: &str =
    "network --protocol udp --direction send --no-latency --seconds 0.5 --repeats 2 --no-save";

#[test]
fn a_line_each_interval_goes_where_standard_output_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let ran = |more: &[&str]| {
        let mut command = linerate();
        let ended = keep_apart(&mut command, folder.path()).args(BRIEFLY.split(' ')).args(more).ended();
        ended.gives(0);
        (ended.stdout, ended.stderr)
    };
    let lines = |text: &str| text.lines().filter(|line| line.contains(" s  network ")).count();
    let (output, error) = ran(&["--interval", "200ms"]);
    assert!(lines(&output) >= 2 && lines(&error) == 0, "{output}\n{error}");
    assert!(output.lines().next().is_some_and(|line| line.ends_with("b/s")), "{output}");
    let (output, error) = ran(&["--interval", "200ms", "--format", "line"]);
    assert!(output.lines().count() == 1 && output.contains(" network "), "{output}");
    assert!(lines(&error) >= 2, "{error}");
}
