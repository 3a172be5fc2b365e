//! The streams of `linerate network` by themselves, for `bench/`: what they move and what it costs at each
//! end.
//!
//! `streams WORD=VALUE…` runs both ends in one process over loopback; with `listen=ADDRESS:PORT` only the end
//! that accepts, with `connect=ADDRESS:PORT` only the one that opens. Words: `protocol=tcp|udp`,
//! `method=write|sendfile|splice|zerocopy|trains|datagrams`, `role=send|receive|ask` (of the end that opens),
//! `seconds=`, `streams=`, `write=` and `datagram=` (bytes), `rate=` (bytes per second a stream), `limit=`
//! (bytes a stream), `congestion=`, `near=` and `far=` (cores, with commas), `file=`, `direct=1`, `verify=1`,
//! `buffer=` (receive buffer, bytes). Prints a line an end: bytes a second, CPU seconds a GB, what was lost.

use linerate::flow::stream::{
    Content, SendMethod, StreamCounters, StreamRole, StreamSample, StreamSocket, StreamSpec, accept_udp,
    open_udp, prepare, start,
};
use linerate::protocol::Protocol;
use linerate_system::stop::Stop;
use socket2::{Domain, Socket, Type};
use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// O_DIRECT of x86-64 and most others.
const DIRECT: i32 = 0o40000;

type Args = HashMap<String, String>;
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let words: Args = std::env::args()
        .skip(1)
        .map(|word| word.split_once('=').map(|(name, value)| (name.into(), value.into())).ok_or(word))
        .collect::<Result<_, _>>()
        .map_err(|word| format!("`{word}`: give WORD=VALUE: see the head of this file"))?;
    let streams = number(&words, "streams")?.unwrap_or(1) as u16;
    let near = move |words: &Args, index, address| end(words, index, true, address);
    let far = move |words: &Args, index, address| end(words, index, false, address);
    let lines = match (words.get("listen"), words.get("connect")) {
        (Some(address), _) => all(&words, streams, address.parse()?, &[&far]),
        (_, Some(address)) => all(&words, streams, address.parse()?, &[&near]),
        _ => all(&words, streams, "127.0.0.1:7500".parse()?, &[&far, &near]),
    }?;
    lines.iter().for_each(|line| println!("{line}"));
    Ok(())
}

type End<'a> = &'a (dyn Fn(&Args, u16, SocketAddr) -> Outcome<(StreamSample, StreamRole, f64)> + Sync);

/// Runs these ends of all streams, and sums each up.
fn all(words: &Args, streams: u16, address: SocketAddr, ends: &[End]) -> Outcome<Vec<String>> {
    std::thread::scope(|scope| {
        let running: Vec<Vec<_>> = ends
            .iter()
            .map(|end| {
                (0..streams)
                    .map(|index| {
                        let address = SocketAddr::new(address.ip(), address.port() + index);
                        scope.spawn(move || end(words, index, address))
                    })
                    .collect()
            })
            .collect();
        let mut lines = Vec::new();
        for end in running {
            let samples: Outcome<Vec<_>> =
                end.into_iter().map(|thread| thread.join().map_err(|_| "panicked")?).collect();
            lines.push(summary(&samples?));
        }
        Ok(lines)
    })
}

fn summary(samples: &[(StreamSample, StreamRole, f64)]) -> String {
    let sum = |field: fn(&StreamSample) -> u64| samples.iter().map(|(sample, ..)| field(sample)).sum::<u64>();
    let bytes = sum(|sample| sample.bytes) as f64;
    let seconds = samples.iter().map(|(.., seconds)| *seconds).fold(0.0, f64::max);
    let cpu = sum(|sample| sample.cpu_nanos) as f64 / 1e9;
    let (lost, datagrams) = (sum(|sample| sample.lost), sum(|sample| sample.datagrams));
    let role = format!("{:?}", samples[0].1).to_lowercase();
    let mut line = format!(
        "{role} gigabits={:.2} cpu_s_per_gb={:.4} seconds={seconds:.2} bytes={bytes} calls={} \
         datagrams={datagrams} lost={lost} lost_percent={:.3}",
        bytes * 8.0 / seconds / 1e9,
        cpu / (bytes / 1e9),
        sum(|sample| sample.calls),
        lost as f64 * 100.0 / (datagrams + lost).max(1) as f64,
    );
    let first = &samples[0].0;
    line += &format!(
        " reordered={} duplicated={} foreign={} jitter_us={} drops={}",
        sum(|sample| sample.reordered),
        sum(|sample| sample.duplicated),
        sum(|sample| sample.foreign),
        first.jitter_nanos / 1000,
        sum(|sample| sample.socket_drops),
    );
    line += &format!(
        " retransmits={} zerocopy={:?} trips={:?} checksum={:x}",
        first.tcp.as_ref().map_or(0, |tcp| tcp.retransmits),
        first.zerocopy,
        first.round_trip_micros,
        first.checksum,
    );
    line
}

fn end(
    words: &Args,
    index: u16,
    near: bool,
    address: SocketAddr,
) -> Outcome<(StreamSample, StreamRole, f64)> {
    let spec = spec(words, index, near)?;
    let token = [index as u8 + 1; 32];
    let socket = open(&spec, near, address, token)?;
    let begin = Instant::now();
    let counters = Arc::new(StreamCounters::new(begin));
    let stop = Arc::new(Stop::new());
    let role = spec.role;
    let content = content(words, index)?;
    let running = start(spec, socket, content, Arc::clone(&counters), Arc::clone(&stop))?;
    let seconds: f64 = words.get("seconds").map_or(Ok(3.0), |seconds| seconds.parse())?;
    // Who sends or asks is told to stop; the other end ends with it.
    let leads = matches!(role, StreamRole::Send | StreamRole::Ask);
    while !running.ended() {
        std::thread::sleep(Duration::from_millis(5));
        if leads && begin.elapsed().as_secs_f64() >= seconds {
            stop.end();
        }
    }
    running.join()?;
    let sample = counters.sample();
    let seconds = sample.bytes_nanos as f64 / 1e9;
    Ok((sample, role, seconds))
}

fn spec(words: &Args, index: u16, near: bool) -> Outcome<StreamSpec> {
    let word = |name: &str, other: &str| words.get(name).cloned().unwrap_or_else(|| other.into());
    let udp = word("protocol", "tcp") == "udp";
    let role = match word("role", "send").as_str() {
        "receive" => StreamRole::Receive,
        "ask" => StreamRole::Ask,
        _ => StreamRole::Send,
    };
    let cores = words.get(if near { "near" } else { "far" });
    let cores: Vec<u32> = cores.map_or(Ok(Vec::new()), |list| list.split(',').map(str::parse).collect())?;
    Ok(StreamSpec {
        protocol: if udp { Protocol::Udp } else { Protocol::Tcp },
        role: if near { role } else { role.other() },
        method: match word("method", if udp { "trains" } else { "write" }).as_str() {
            "sendfile" => SendMethod::Sendfile,
            "splice" => SendMethod::Splice,
            "zerocopy" => SendMethod::Zerocopy,
            "trains" => SendMethod::Trains,
            "datagrams" => SendMethod::Datagrams,
            _ => SendMethod::Write,
        },
        write_bytes: number(words, "write")?.unwrap_or(if role == StreamRole::Ask { 200 } else { 1 << 20 })
            as u32,
        datagram_bytes: number(words, "datagram")?.unwrap_or(1472) as u32,
        bytes_per_second: number(words, "rate")?.map(|rate| rate as f64),
        pacing_bytes_per_second: None,
        limit_bytes: number(words, "limit")?,
        congestion_control: words.get("congestion").cloned(),
        send_buffer_bytes: number(words, "send_buffer")?,
        receive_buffer_bytes: number(words, "buffer")?,
        core: (!cores.is_empty()).then(|| cores[usize::from(index) % cores.len()]),
        verify: words.contains_key("verify"),
        discard: words.contains_key("discard"),
    })
}

fn number(words: &Args, name: &str) -> Outcome<Option<u64>> {
    Ok(words.get(name).map(|value| value.parse()).transpose()?)
}

fn content(words: &Args, index: u16) -> Outcome<Content> {
    let Some(path) = words.get("file") else { return Ok(Content::Memory) };
    let direct = words.contains_key("direct");
    let file = File::options().read(true).custom_flags(if direct { DIRECT } else { 0 }).open(path)?;
    let streams = number(words, "streams")?.unwrap_or(1);
    let length = file.metadata()?.size() / streams;
    let offset = length * u64::from(index);
    Ok(Content::File { file: Arc::new(file), label: path.clone(), offset, length, direct })
}

/// An admitted socket, as the agent and its client would have it.
fn open(spec: &StreamSpec, near: bool, address: SocketAddr, token: [u8; 32]) -> Outcome<StreamSocket> {
    let kind = if spec.protocol == Protocol::Udp { Type::DGRAM } else { Type::STREAM };
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    prepare(spec, &socket)?;
    if !near {
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
    }
    Ok(match (spec.protocol, near) {
        (Protocol::Udp, true) => {
            socket.connect(&address.into())?;
            let socket = socket.into();
            open_udp(&socket, &token, &Stop::new())?;
            StreamSocket::Udp { socket, token }
        }
        (Protocol::Udp, false) => {
            let socket = socket.into();
            if !accept_udp(&socket, &token, &Stop::new())? {
                return Err("nobody came".into());
            }
            StreamSocket::Udp { socket, token }
        }
        (Protocol::Tcp, true) => {
            let patience = Instant::now() + Duration::from_secs(5);
            while let Err(error) = socket.connect(&address.into()) {
                if Instant::now() > patience {
                    return Err(error.into());
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            StreamSocket::Tcp(socket.into())
        }
        (Protocol::Tcp, false) => {
            socket.listen(1)?;
            StreamSocket::Tcp(socket.accept()?.0.into())
        }
    })
}
