//! What a help text shows. Commands are in groups and options under headings, what people use most first; at
//! its end, and in the man page, are examples of each command. A test parses every line of them.

use clap::{Arg, ArgAction, Command};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

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

/// The heading of each option, and its place among all: each start of the program asks for hundreds.
static PLACES: LazyLock<HashMap<&str, (&str, usize)>> = LazyLock::new(|| {
    let options = HEADINGS.iter().flat_map(|(head, all)| all.split_whitespace().map(|one| (one, *head)));
    options.enumerate().map(|(place, (option, head))| (option, (head, place))).collect()
});

fn place(option: &str) -> (&'static str, usize) {
    PLACES.get(option).copied().unwrap_or((ADVANCED, PLACES.len()))
}

/// What it is for, and the line.
pub(super) type Example = (&'static str, &'static str);

/// Of a command by its words without `linerate`, else of the one above: what controls a wall shares them.
pub(super) fn examples_of(command: &str) -> &'static [Example] {
    let own = EXAMPLES.iter().find(|(words, _)| *words == command).map(|(_, examples)| *examples);
    own.or_else(|| Some(examples_of(command.rsplit_once(' ')?.0))).unwrap_or_default()
}

/// The line as it is typed for this program.
pub(super) fn written_for(program: &str, line: &str) -> String {
    match line.strip_prefix("linerate wall ") {
        Some(words) if program == "linerate-wall" => format!("{program} {words}"),
        _ => line.to_string(),
    }
}

const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "",
        &[
            ("How fast is this machine, in less than a minute?", "linerate run"),
            ("The same to another host, which is reached over ssh", "linerate run --peer ssh://host"),
            ("What does it do just now?", "linerate watch"),
        ],
    ),
    (
        "run",
        &[
            ("This machine's disk to its own stack, in less than a minute", "linerate run"),
            ("To another host, where ssh starts an agent", "linerate run --peer ssh://host"),
            (
                "Two disks and two NICs, to `linerate agent` on the other host",
                "linerate run --source /data1/file --source /data2/file --peer 192.0.2.7 --peer 198.51.100.7",
            ),
            (
                "Does what a server gives reach what this host could take, and its disk could store?",
                "linerate run --source https://files.example/image.iso --sink /data",
            ),
            ("In production: 2 Gb/s, last in each disk's queue", "linerate run --rate-limit 2G --idle"),
            ("One line for the log of a cron job", "linerate run --format line"),
            ("A gate: status 5 where a rule of the file fails", "linerate run --expect node.toml"),
        ],
    ),
    (
        "probe",
        &[
            ("What is in this server, and what is wrong with how it is plugged together?", "linerate probe"),
            ("For a bug report, without names and addresses", "linerate probe --capture capture.tar.gz"),
            ("The machine that a colleague has captured", "linerate probe capture.tar.gz"),
            ("A machine of which there are only listings", "linerate probe lspci.txt lscpu.txt netstat.txt"),
            ("What was lost between two moments?", "linerate probe before.txt after.txt"),
        ],
    ),
    (
        "explain",
        &[
            ("Why is the program that listens at this port no faster?", "linerate explain --port 443"),
            ("Measured: what is lost while a little is taken?", "linerate explain rclone --experiment"),
            ("What does this process wait for?", "linerate explain 4711 --seconds 5"),
            ("A program by its name, a unit of systemd, a container", "linerate explain rclone"),
            ("", "linerate explain --unit nginx"),
            ("", "linerate explain --container 4f66ad9c0b1d"),
        ],
    ),
    (
        "fleet",
        &[
            ("Which of eight hosts, or which link, is slow?", "linerate fleet pairs --hosts a[1-8]"),
            (
                "The hosts of a hostfile; saved as run.json and report.html",
                "linerate fleet pairs --hostfile hosts.txt --output today",
            ),
            (
                "Two racks, of which each has an uplink of 10 Gb/s",
                "linerate fleet pairs --hosts a[1-8] --fabric a[1-4]:10G --fabric a[5-8]:10G",
            ),
            ("The disks of all hosts", "linerate fleet disk --hosts a[1-8] --source /data --write"),
            (
                "What eight servers give sixteen clients from their disks, and what 4+2 would leave of it",
                "linerate fleet storage --hosts a[1-24] --servers a[1-8] --source /data --redundancy 4+2",
            ),
            (
                "How far three racks are oversubscribed; racks.txt has a line for each, such as a[1-8]",
                "linerate fleet bisection --hostfile hosts.txt --fabric ./racks.txt",
            ),
            ("In a job of srun, or of mpirun -x LINERATE_KEY", "linerate fleet all-to-all"),
        ],
    ),
    (
        "plan",
        &[
            ("What could this machine reach?", "linerate plan"),
            ("A server that is not bought yet", "linerate plan --machine server.toml --target 100G"),
            ("From what the newest run has measured here", "linerate plan --measured"),
        ],
    ),
    ("plan raid", &[("Eight disks of which two may fail", "linerate plan raid --level raid6 --disks 8")]),
    (
        "disk",
        &[
            ("Sequential and random, read and written, on the disk of this folder", "linerate disk"),
            (
                "As users of fio ask it",
                "linerate disk --pattern random --access read --transfer 4k --queue-depth 1,16,64",
            ),
            ("A block device, only read", "linerate disk --source /dev/nvme0n1 --access read"),
        ],
    ),
    (
        "load",
        &[
            ("The curve of requests and access times, and where it levels off", "linerate load"),
            ("The most requests, of which 99 % take 5 ms", "linerate load --find-rate --keep p99=5ms"),
        ],
    ),
    ("memory", &[("Every cache level and memory, on one core and on all", "linerate memory")]),
    (
        "network",
        &[
            ("To a `linerate agent`, both ways", "linerate network --peer 192.0.2.7 --direction both"),
            (
                "Four streams of UDP at 5 Gb/s together",
                "linerate network --peer 192.0.2.7 --protocol udp --streams 4 --rate 5G",
            ),
            ("By RDMA, and TCP beside it", "linerate network --peer 192.0.2.7 --protocol rdma"),
            ("To an iperf3 server", "linerate network --iperf3 192.0.2.7"),
            ("A line each second, also into a file", "linerate network --peer 192.0.2.7 --interval 1s"),
        ],
    ),
    (
        "agent",
        &[
            ("Be the other end; the lines for the other host are printed", "linerate agent"),
            ("For two hosts only, with a bound", "linerate agent --allow 192.0.2.0/24 --rate-limit 10G"),
        ],
    ),
    (
        "copy",
        &[
            ("A folder to another host, into /data there", "linerate copy results me@host:/data"),
            ("To here, without what is built", "linerate copy host:/src . --exclude *.o --exclude .git"),
            ("What would be copied?", "linerate copy host:/data/set/ /data/set --dry-run"),
        ],
    ),
    (
        "serve",
        &[
            ("A folder, to anyone who can connect; the URLs are printed", "linerate serve /data"),
            (
                "The same under TLS, to those who show the token; the certificate's fingerprint is printed",
                "linerate serve /data --tls --token-file token",
            ),
            ("Take files from them, too", "linerate serve /data --writable --token-file token"),
            (
                "On two NICs, to those who have the token, at most 20 Gb/s",
                "linerate serve /data --listen 192.0.2.7 --listen 198.51.100.7 --token-file token --rate-limit 20G",
            ),
        ],
    ),
    (
        "get",
        &[
            ("A folder of `linerate serve`", "linerate get http://192.0.2.7:7415/ --output data"),
            (
                "One large file of any server, over eight connections, compared with its published sum",
                "linerate get http://192.0.2.7/image.iso --streams 8 --sha256 \
                 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ),
        ],
    ),
    (
        "put",
        &[
            (
                "A folder to `linerate serve --writable`, with all that is below it",
                "linerate put results http://192.0.2.7:7415/incoming/ --token-file token",
            ),
            (
                "One file under another name",
                "linerate put image.iso http://192.0.2.7:7415/new.iso --token-file token",
            ),
        ],
    ),
    ("wall", &[("Six windows on this machine, and a page to control them", "linerate wall demo --grid 3x2")]),
    (
        "wall demo",
        &[("Six windows on this machine, and a page to control them", "linerate wall demo --grid 3x2")],
    ),
    (
        "wall import",
        &[("A film for a wall of 3 x 2 screens", "linerate wall import film.mp4 movie --grid 3x2")],
    ),
    (
        "wall generate",
        &[(
            "A test movie of ten seconds",
            "linerate wall generate movie --grid 3x2 --tile 640x400 --frames 240",
        )],
    ),
    ("wall plan", &[("Does this server have what the movie needs?", "linerate wall plan movie")]),
    (
        "wall serve",
        &[(
            "To two screens",
            "linerate wall serve movie --screen r0c0=192.0.2.11:5004 --screen r0c1=192.0.2.12:5004 --key-file key",
        )],
    ),
    (
        "wall show",
        &[(
            "A window for the first tile",
            "linerate wall show --listen 5004 --server 192.0.2.7 --tile r0c0 --key-file key",
        )],
    ),
    (
        "wall control",
        &[
            ("How does the wall do?", "linerate wall control --server 192.0.2.7 --key-file key status"),
            ("What could be played? That one", "linerate wall control --key-file key movies"),
            ("", "linerate wall control --key-file key open harbour"),
            ("Half as fast, from the first frame", "linerate wall control --key-file key speed 0.5"),
            ("", "linerate wall control --key-file key seek 0"),
            ("Its upper right quarter", "linerate wall control --key-file key view 1920,0,2"),
        ],
    ),
    (
        "tune",
        &[
            ("What is advised, and why? Nothing is changed", "linerate tune"),
            ("Change it, and take it back", "linerate tune apply"),
            ("", "linerate tune undo"),
        ],
    ),
    ("tune apply", &[("Only one setting", "linerate tune apply --setting rmem-max")]),
    ("tune measure", &[("Which of them help here?", "linerate tune measure --stage disk --yes")]),
    ("tune undo", &[("All that was applied", "linerate tune undo")]),
    ("tune persist", &[("What is applied lasts over the next reboot", "linerate tune persist")]),
    (
        "watch",
        &[
            ("In this terminal", "linerate watch"),
            ("A page and Prometheus' metrics, on this host only", "linerate watch --listen 127.0.0.1:7414"),
        ],
    ),
    (
        "report",
        &[
            ("The newest kept result as a page", "linerate report @-1 --html report.html"),
            ("Its figures for a spreadsheet", "linerate report @-1 --format csv"),
            ("A page for others, without names", "linerate report @-1 --anonymous --html page.html"),
        ],
    ),
    (
        "compare",
        &[
            ("The newest two of one command and goal", "linerate compare"),
            ("The newest two of linerate disk", "linerate compare @disk-2 @disk-1"),
            ("Two fleets: which flows changed?", "linerate compare monday tuesday"),
        ],
    ),
    (
        "check",
        &[
            ("Is this machine slower than usual? In less than half a minute", "linerate check"),
            (
                "To another host, with the figures for Prometheus",
                "linerate check --peer 192.0.2.7 --prometheus /var/lib/node_exporter/linerate.prom",
            ),
            ("Was the newest kept result slower than those before it?", "linerate check @-1"),
        ],
    ),
    (
        "reproduce",
        &[
            ("What the model says of SARA's Dell T610", "linerate reproduce d1.1 --plan"),
            (
                "Its three NICs, with two that are here",
                "linerate reproduce d1.1 --with nic=eth0 --with address=192.0.2.9 --with nic=eth1 --with address=198.51.100.9",
            ),
        ],
    ),
    ("list", &[("What was measured, and what came of it", "linerate list")]),
    ("plan rates", &[("What do the generations of PCIe carry?", "linerate plan rates pcie")]),
];

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
