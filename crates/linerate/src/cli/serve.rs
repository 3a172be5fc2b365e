//! `linerate serve`: its words, its URLs, and what it served.

use super::agent::ways_here;
use super::arguments::ServeArgs;
use super::output::Output;
use super::progress::Progress;
use super::saving::keep;
use super::stop::stop_on_signals;
use linerate_deliver::serve::{
    AccessLog, BearerToken, DEFAULT_PORT, FileServer, FileServerSettings, ServedNow, ServedTree,
};
use linerate_deliver::served_run;
use linerate_deliver::tls::{Fingerprint, ServerTls};
use linerate_facts::failure::Failure;
use linerate_facts::room::StorageLimits;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::units::{show_bits_rate, show_bytes_rate, show_size};
use linerate_facts::wording::{counted, time};
use linerate_machine::flow_devices::disks_below;
use linerate_machine::probe::{Machine, probe};
use linerate_measure::run::{Run, ServedResult};
use linerate_report as report;
use linerate_system::clock;
use linerate_transport::address::listen_address;
use std::collections::BTreeSet;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Connections at once where nothing else is said.
const CONNECTIONS: usize = 10_000;
/// The same where each keeps a thread.
const TLS_CONNECTIONS: usize = 64;
/// Connections that have not agreed on their keys, at most; each may keep its descriptor for ten seconds.
const MOST_HANDSHAKES: usize = 2048;
/// Descriptors of the server itself, and of connections that are on a thread.
const OWN_DESCRIPTORS: usize = 64;
const MOVING_DESCRIPTORS: usize = 64 * 6;
/// The rate of the live line is of so long.
const RATE_OVER: Duration = Duration::from_secs(1);

/// Serves until Ctrl-C.
pub(super) fn serve(args: &ServeArgs, output: &Output) -> Result<u8, Failure> {
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT));
    let address = |text: &String| {
        listen_address(text, any.ip(), Some(DEFAULT_PORT))
            .map_err(|why| Failure::Usage(format!("--listen {why}")))
    };
    let mut listen = args.listen.iter().map(address).collect::<Result<Vec<_>, _>>()?;
    if listen.is_empty() {
        listen.push(any);
    }
    let token = args.token_file.as_deref().map(BearerToken::read).transpose()?;
    let tree = ServedTree::open(&args.path)?;
    let tls = tls(args, &listen)?;
    let fingerprint = tls.as_ref().map(|tls| tls.fingerprint);
    let stop = stop_on_signals()?;
    let (connections, handshakes) = connections(args)?;
    let (has_token, writable) = (token.is_some(), args.writable);
    let (sysroot, machine) = (Sysroot::live(), probe(&Sysroot::live()));
    let settings = FileServerSettings {
        disks: disks_below(&sysroot, &machine, &args.path),
        connections,
        handshakes,
        bytes_per_second: args.rate_limit,
        token,
        names: args.name.clone(),
        writable: args.writable.then_some(StorageLimits { keep_bytes: args.keep, limit_bytes: args.limit }),
        tls,
    };
    let access_log = args.access_log.as_deref().map(access_log).transpose()?;
    let server = FileServer::bind(&listen, tree, settings)?.with_access_log(access_log);
    let text = started(&server, &machine, (has_token, writable), fingerprint);
    if args.json {
        text.lines().for_each(|line| output.tell(line))
    } else {
        output.print(&text)?
    }
    let begun = humantime::format_rfc3339_seconds(clock::date()).to_string();
    let mut progress = Progress::line("serve", output);
    let mut last = LastLook { at: clock::now(), bytes: 0, rate: 0.0 };
    let served = server.serve(&stop, &mut |now| progress.reached(last.shown(now), None));
    progress.finish();
    let run = served_run(&args.path, machine, served, args.rate_limit);
    let run = Run { started: begun, ..run };
    if !args.keeping.no_save {
        keep(&run, output);
    }
    output.print(&if args.json { report::json(&run) } else { text_of(&run) })?;
    Ok(0)
}

/// Where the lines of `--access-log` go; what is there already is kept.
fn access_log(path: &Path) -> Result<AccessLog, Failure> {
    if path == Path::new("-") {
        return Ok(AccessLog::to(std::io::stdout()));
    }
    let opened = File::options().append(true).create(true).mode(0o640).open(path);
    opened.map(AccessLog::to).map_err(|error| {
        Failure::Lacks(format!(
            "--access-log {}: cannot be opened: {error}; name a file in a folder that you may write",
            path.display()
        ))
    })
}

/// What the live line showed last.
struct LastLook {
    at: Instant,
    bytes: u64,
    rate: f64,
}

impl LastLook {
    /// `3 clients, 512 MB/s, 118 requests, 2 of them answered with an error`.
    fn shown(&mut self, now: ServedNow) -> String {
        let time = clock::since(self.at);
        if time >= RATE_OVER {
            self.rate = now.bytes.saturating_sub(self.bytes) as f64 / time.as_secs_f64();
            (self.at, self.bytes) = (clock::now(), now.bytes);
        }
        let rate =
            if now.connections > 0 { format!(", {}", show_bytes_rate(self.rate)) } else { String::new() };
        let failed = match now.failed {
            0 => String::new(),
            failed => format!(", {failed} of them answered with an error"),
        };
        format!(
            "{}{rate}, {}{failed}",
            counted(now.connections, "connection"),
            counted(now.requests, "request")
        )
    }
}

/// How many at once: what was asked for, if that many descriptors may be open; and how many before they have agreed on
/// their keys.
fn connections(args: &ServeArgs) -> Result<(usize, usize), Failure> {
    let files = linerate_system::storage::raise_open_files();
    let most_files = files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
    let room = if files.is_some() { room_for(most_files, args.tls) } else { usize::MAX };
    let usual = if args.tls { TLS_CONNECTIONS } else { CONNECTIONS };
    let connections = args.connections.map_or(usual.min(room), |wanted| wanted as usize);
    if connections <= room {
        return Ok((connections, connections.max(MOST_HANDSHAKES.min(most_files / 4))));
    }
    Err(Failure::Lacks(format!(
        "--connections {connections}: this process may have {} open files, which is enough for {room} connections; raise \
         the limit (ulimit -Hn, LimitNOFILE= of its unit), or ask for fewer",
        files.unwrap_or_default()
    )))
}

/// Connections for so many descriptors: one each while it waits for its client; those that move bytes have a file, a
/// file past the page cache and a ring, too. Under TLS as many more may be at their handshakes.
fn room_for(files: usize, tls: bool) -> usize {
    let (own, each) = if tls { (OWN_DESCRIPTORS, 3) } else { (OWN_DESCRIPTORS + MOVING_DESCRIPTORS, 1) };
    (files.saturating_sub(own.min(files / 2)) / each).max(2)
}

/// A line for each URL, the fastest NIC first.
fn started(
    server: &FileServer,
    machine: &Machine,
    (has_token, writable): (bool, bool),
    fingerprint: Option<Fingerprint>,
) -> String {
    let addresses = server.local_addresses();
    let ways = ways_here(machine, &addresses);
    let scheme = if fingerprint.is_some() { "https" } else { "http" };
    let mut urls: Vec<(String, String)> = Vec::new();
    for top in server.tops() {
        urls.extend(ways.iter().map(|way| (format!("{scheme}://{}{top}", way.address), way.link())));
        let named = addresses.iter().filter(|address| !address.ip().is_unspecified() || ways.is_empty());
        urls.extend(named.map(|address| (format!("{scheme}://{}{top}", reachable(*address)), String::new())));
    }
    let width = urls.iter().map(|(url, _)| url.chars().count()).max().unwrap_or_default();
    let line =
        |(url, link): &(String, String)| format!("  {url:width$}  {link}").trim_end().to_string() + "\n";
    let who = match has_token {
        true => "to those who show the token",
        false => "to anyone who can connect; --token-file FILE asks for a token",
    };
    let what = if writable { "serving, and taking files," } else { "serving read-only," };
    let known = fingerprint.map(|own| format!("the certificate's SHA-256, for --fingerprint: {own}\n"));
    let urls: String = urls.iter().map(line).collect();
    format!("{what} {who}:\n{urls}{}", known.unwrap_or_default())
}

/// What it speaks; the names of a certificate that is made are the addresses of this host.
fn tls(args: &ServeArgs, listen: &[SocketAddr]) -> Result<Option<ServerTls>, Failure> {
    if !args.tls {
        return Ok(None);
    }
    let made = match (&args.certificate, &args.key) {
        (Some(certificate), Some(key)) => ServerTls::of_files(certificate, key),
        _ => {
            let ways = ways_here(&probe(&Sysroot::live()), listen);
            let own = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
            let named = listen.iter().map(SocketAddr::ip).filter(|address| !address.is_unspecified());
            let all: BTreeSet<IpAddr> =
                ways.iter().map(|way| way.address.ip()).chain(named).chain(own).collect();
            ServerTls::made(&all.into_iter().collect::<Vec<_>>())
        }
    };
    made.map(Some).map_err(Failure::lacks)
}

/// On a host that nobody else reaches, every address is this host's own.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip().is_unspecified() {
        true if address.is_ipv4() => ([127, 0, 0, 1], address.port()).into(),
        true => (Ipv6Addr::LOCALHOST, address.port()).into(),
        false => address,
    }
}

fn text_of(run: &Run) -> String {
    let Some(summary) = &run.served else { return String::new() };
    let ServedResult { seconds, connections, requests, bytes, .. } = *summary;
    let mut text = format!(
        "served {} in {}: {} over {}\n",
        show_size(bytes),
        time(seconds),
        counted(requests, "request"),
        counted(connections, "connection")
    );
    let rate = bytes as f64 / seconds.max(1e-9);
    if bytes > 0 {
        text.push_str(&format!("  on the average {} ({})\n", show_bytes_rate(rate), show_bits_rate(rate)));
        text.push_str(&format!("  {} from the page cache\n", show_size(summary.bytes_from_page_cache)));
    }
    if summary.bytes_encrypted > 0 {
        let encrypted = show_size(summary.bytes_encrypted);
        let why = summary.encrypts_here.as_deref().unwrap_or("TLS 1.2");
        text.push_str(&format!("  {encrypted} under TLS, encrypted in user space ({why})\n"));
    }
    if summary.bytes_encrypted_by_kernel > 0 {
        let encrypted = show_size(summary.bytes_encrypted_by_kernel);
        text.push_str(&format!("  {encrypted} of them under TLS, encrypted by the kernel\n"));
    }
    if let Some(method) = &summary.direct_method {
        text.push_str(&format!("  {} past it, by {method}\n", show_size(summary.bytes_past_cache)));
    }
    if summary.taken_files > 0 {
        let (files, bytes) = (counted(summary.taken_files, "file"), show_size(summary.taken_bytes));
        text.push_str(&format!("  took {files}, {bytes}\n"));
    }
    let limit = run.bottleneck();
    if let (Some(measured), Some(limit)) = (run.measurements.first(), limit) {
        let moved = measured.bytes_per_second;
        let (bytes_rate, bits_rate) = (show_bytes_rate(moved), show_bits_rate(moved));
        let busy = time(measured.seconds);
        text.push_str(&format!(
            "  while files were moved ({busy}): {bytes_rate} ({bits_rate}), {}\n",
            limit.sentence
        ));
    }
    for (count, what) in [
        (summary.failed_requests, "answered with an error"),
        (summary.cut_short, "cut short: the client left, took too little, or the file changed"),
    ] {
        if count > 0 {
            text.push_str(&format!("  {} {what}\n", counted(count, "request")));
        }
    }
    if summary.refused_connections > 0 {
        let refused = counted(summary.refused_connections, "connection");
        text.push_str(&format!("  {refused} turned away: all were taken, --connections allows more\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_fit_into_the_limit_of_open_files() {
        assert_eq!(room_for(1 << 20, false), (1 << 20) - 448);
        assert_eq!(room_for(20_000, false), 19_552);
        assert_eq!(room_for(1024, false), 576);
        assert_eq!(room_for(256, false), 128, "half of what is little");
        assert_eq!(room_for(1024, true), 320);
        assert_eq!(room_for(0, true), 2);
    }
}
