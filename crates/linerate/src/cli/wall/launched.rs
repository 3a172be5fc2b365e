//! `wall serve --launch`: the screens of the wall, started on their hosts by ssh or another launcher of
//! `linerate fleet`, started again where one ends too early, and ended with the server. The tiles of the wall
//! are dealt to the hosts of `--screens HOST…`.

use crate::cli::arguments::wall::WallServeArgs;
use crate::cli::output::Output;
use linerate_facts::fact::Fact;
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_fleet::{LaunchPlan, LaunchedMembers, SSH_WORDS};
use linerate_machine::probe::Machine;
use linerate_machine::probe::route::path_to;
use linerate_system::clock;
use linerate_system::stop::Stop;
use linerate_transport::address::resolve_named;
use linerate_transport::agent::Key;
use linerate_wall::control::DEFAULT_PORT;
use linerate_wall::geometry::WallGrid;
use linerate_wall::serve::ServedScreen;
use linerate_wall::status::TileStatus;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// A launcher that ended is started again after this, after twice of it where that ends, too …
const AGAIN: Duration = Duration::from_secs(1);
/// … and at most after this.
const LONGEST_AGAIN: Duration = Duration::from_secs(60);
/// How often ends are looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The screens of one host.
struct HostScreens {
    host: String,
    /// The command there.
    member: Vec<String>,
    running: Option<LaunchedMembers>,
    /// When it is started next, and how long it is waited for after that.
    due: Instant,
    again: Duration,
}

/// All screens that were launched; dropping this ends them.
pub(super) struct LaunchedScreens {
    plan: LaunchPlan,
    key: Key,
    hosts: Vec<HostScreens>,
}

impl LaunchedScreens {
    /// Starts the screens of every host. `control`: where the control channel listens.
    pub(super) fn start(
        args: &WallServeArgs,
        text: Option<&str>,
        (sysroot, machine): (&Sysroot, &Machine),
        screens: &[ServedScreen],
        (control, key): (&[SocketAddr], &Key),
    ) -> Result<LaunchedScreens, Failure> {
        let mut of_hosts: BTreeMap<IpAddr, Vec<&ServedScreen>> = BTreeMap::new();
        for screen in screens {
            let Some(to) = screen.to.first() else { continue };
            if to.ip().is_multicast() {
                return Err(Failure::Usage(format!(
                    "--launch: screen {} is at {to}, a multicast group, which is not a host: start its screens by hand",
                    screen.tile
                )));
            }
            of_hosts.entry(to.ip()).or_default().push(screen);
        }
        let program = std::env::current_exe().map_err(|error| {
            Failure::Lacks(format!("--launch: this program's own path is unknown: {error}"))
        })?;
        let names: Vec<String> = of_hosts.keys().map(IpAddr::to_string).collect();
        let plan = LaunchPlan::new(text.unwrap_or(SSH_WORDS), &names).map_err(Failure::usage)?;
        if !plan.is_for_each() {
            return Err(Failure::Usage(
                "--launch needs {host}, for each host has screens of its own: 'ssh {host}', 'mpirun -np 1 -H {host}'"
                    .into(),
            ));
        }
        let mut hosts = Vec::new();
        for (host, screens) in of_hosts {
            let own = match path_to(sysroot, machine, host) {
                Fact::Known((_, own)) => own,
                Fact::Unknown { why } => {
                    return Err(Failure::Lacks(format!("--launch: screens at {host}: {why}")));
                }
            };
            let mut member = vec![program.display().to_string(), "show".into()];
            member.extend(["--server".into(), reached(control, own).to_string()]);
            member.extend(["--key-file".into(), "-".into()]);
            for screen in screens {
                let port = screen.to.first().map_or(0, SocketAddr::port);
                member.extend([
                    "--listen".into(),
                    port.to_string(),
                    "--tile".into(),
                    screen.tile.to_string(),
                ]);
            }
            member.extend(args.show.iter().cloned());
            hosts.push(HostScreens {
                host: host.to_string(),
                member,
                running: None,
                due: clock::now(),
                again: AGAIN,
            });
        }
        Ok(LaunchedScreens { plan, key: key.clone(), hosts })
    }

    /// Keeps them running until `stop`. What one of them complains about is one sentence; the others go on.
    pub(super) fn keep(&mut self, stop: &Stop, output: &Output) {
        while !stop.is_ended() {
            for host in &mut self.hosts {
                host.look(&self.plan, &self.key, output);
            }
            stop.wait(POLL_INTERVAL);
        }
        // All at once: they are waited for one after the other.
        self.hosts.iter_mut().filter_map(|host| host.running.as_mut()).for_each(LaunchedMembers::close_input);
    }
}

/// Where screens find the control channel that reach this host at `own`: there, where it listens at every address or at
/// this one, else at an address that was named for it.
fn reached(control: &[SocketAddr], own: IpAddr) -> SocketAddr {
    let own_port = control.iter().find(|at| at.ip().is_unspecified() || at.ip().to_canonical() == own);
    match (own_port, control.first()) {
        (Some(at), _) => SocketAddr::new(own, at.port()),
        (None, Some(named)) => *named,
        (None, None) => SocketAddr::new(own, DEFAULT_PORT),
    }
}

/// Screens that were launched and told nothing, of which nobody has said so yet: their hosts take what is sent to them and
/// do not answer.
pub(super) fn never_came(tiles: &[TileStatus]) -> Option<String> {
    let absent = tiles.iter().filter(|tile| tile.report.is_none() && tile.problem.is_none());
    let named: Vec<String> = absent.map(|tile| format!("{} at {}", tile.tile, tile.screen)).collect();
    let advice = "look at what their launcher said, and whether the hosts run";
    (!named.is_empty()).then(|| format!("screens that never came: {}; {advice}", named.join(", ")))
}

impl HostScreens {
    fn look(&mut self, plan: &LaunchPlan, key: &Key, output: &Output) {
        let Some(running) = &mut self.running else {
            if clock::now() >= self.due {
                self.begin(plan, key, output);
            }
            return;
        };
        if running.is_running() {
            return;
        }
        let why = running.ended().pop().map_or_else(|| "it ended".to_string(), |end| end.why);
        self.running = None;
        self.later(&why, output);
    }

    fn begin(&mut self, plan: &LaunchPlan, key: &Key, output: &Output) {
        match plan.start_one(&self.host, &self.member, key) {
            Ok(running) => self.running = Some(running),
            Err(why) => self.later(&why.to_string(), output),
        }
    }

    fn later(&mut self, why: &str, output: &Output) {
        let after = self.again;
        output.complain(&format!(
            "screens at {}: {why}; they are started again in {} s",
            self.host,
            after.as_secs()
        ));
        (self.due, self.again) = (clock::now() + after, (after * 2).min(LONGEST_AGAIN));
    }
}

/// The port of a host's first screen; the next ones follow it.
const FIRST_PORT: u16 = 5004;

/// The screens of all tiles: in reading order, as many to each host as to the others or one more, each on a port
/// of its own.
pub(super) fn dealt(hosts: &[String], grid: WallGrid) -> Result<Vec<ServedScreen>, Failure> {
    let (count, tiles) = (hosts.len(), grid.len());
    if count > tiles {
        return Err(Failure::Usage(format!(
            "--screens names {count} hosts for {tiles} tiles: leave some out, or deal them with --screen TILE=HOST:PORT"
        )));
    }
    let mut screens = Vec::with_capacity(tiles);
    let mut next = 0;
    for (index, named) in hosts.iter().enumerate() {
        let first = resolve_named("--screens", named, FIRST_PORT)?;
        // Rounded so that the first hosts do not get all that is over.
        let own = (index + 1) * tiles / count - next;
        for (at, tile) in grid.tiles().skip(next).take(own).enumerate() {
            let port = u16::try_from(at).ok().and_then(|at| first.port().checked_add(at));
            let port = port.ok_or_else(|| {
                Failure::Usage(format!(
                    "--screens {named}: {own} ports from {} on do not exist",
                    first.port()
                ))
            })?;
            let mut to = first;
            to.set_port(port);
            screens.push(ServedScreen { tile, named: to.to_string(), to: vec![to] });
        }
        next += own;
    }
    Ok(screens)
}

/// Which tiles each host shows, for people: `10.0.0.2: r0c0 on port 5004 … r0c4 on port 5008`.
pub(super) fn words(screens: &[ServedScreen]) -> Vec<String> {
    let host = |screen: &ServedScreen| screen.to.first().map(|to| to.ip());
    let of_host = screens.chunk_by(|a, b| host(a) == host(b));
    let line = |own: &[ServedScreen]| {
        let (first, last) = (own.first()?, own.last()?);
        let (from, to) = (first.to.first()?, last.to.first()?);
        Some(match own.len() {
            1 => format!("{}: tile {} on port {}", from.ip(), first.tile, from.port()),
            count => format!(
                "{}: {count} tiles, {} on port {} to {} on port {}",
                from.ip(),
                first.tile,
                from.port(),
                last.tile,
                to.port()
            ),
        })
    };
    of_host.filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn screens_find_the_control_channel_where_it_listens() {
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let own: IpAddr = "10.0.0.1".parse().expect("an address");
        for (control, reached_at) in [
            (&["[::]:7412"][..], "10.0.0.1:7412"),
            (&["192.0.2.1:7412", "10.0.0.1:7500"], "10.0.0.1:7500"),
            (&["192.0.2.1:7412"], "192.0.2.1:7412"),
            (&[], "10.0.0.1:7412"),
        ] {
            let control: Vec<SocketAddr> = control.iter().map(|text| at(text)).collect();
            assert_eq!(reached(&control, own), at(reached_at));
        }
    }

    fn shown(hosts: &[&str], grid: &str) -> Vec<String> {
        let hosts: Vec<String> = hosts.iter().map(|host| host.to_string()).collect();
        let screens = dealt(&hosts, grid.parse().expect("a grid")).expect("screens");
        screens.iter().map(|screen| format!("{}={}", screen.tile, screen.named)).collect()
    }

    #[test]
    fn tiles_are_dealt_in_reading_order_evenly() {
        let two = shown(&["10.0.0.2", "10.0.0.3:6000"], "3x1");
        assert_eq!(two, ["r0c0=10.0.0.2:5004", "r0c1=10.0.0.3:6000", "r0c2=10.0.0.3:6001"]);
        let one = shown(&["[2001:db8::1]"], "2x2");
        assert_eq!(one[3], "r1c1=[2001:db8::1]:5007");
        let fifteen = shown(&["10.0.0.2", "10.0.0.3", "10.0.0.4"], "5x3");
        assert_eq!((fifteen.len(), fifteen[5].as_str()), (15, "r1c0=10.0.0.3:5004"));
    }

    #[test]
    fn too_many_hosts_and_ports_are_refused_and_the_deal_is_shown() {
        let grid: WallGrid = "2x1".parse().expect("a grid");
        let hosts = |all: &[&str]| all.iter().map(|host| host.to_string()).collect::<Vec<_>>();
        let why = dealt(&hosts(&["10.0.0.1", "10.0.0.2", "10.0.0.3"]), grid).expect_err("three for two");
        assert!(why.to_string().contains("3 hosts for 2 tiles"), "{why}");
        let why = dealt(&hosts(&["10.0.0.1:65535"]), grid).expect_err("no port 65536");
        assert!(why.to_string().contains("do not exist"), "{why}");
        let screens =
            dealt(&hosts(&["10.0.0.1", "10.0.0.2"]), "3x1".parse().expect("a grid")).expect("dealt");
        assert_eq!(
            words(&screens),
            ["10.0.0.1: tile r0c0 on port 5004", "10.0.0.2: 2 tiles, r0c1 on port 5004 to r0c2 on port 5005"]
        );
    }
}
