//! linerate as one end of an iperf3 test, to try it.
//!
//! `iperf3 client HOST[:PORT] [key=value]…` (keys: udp, reverse, bidir, parallel, seconds, omit, bytes, len,
//! window, rate, congestion, cores) prints the outcome as JSON; `iperf3 server [ADDRESS:PORT]` answers until
//! it is stopped.

use linerate::iperf3::{
    Iperf3Limits, Iperf3Server, Iperf3Test, ServerEvent, TestDirection, parse_address, run_client,
};
use linerate::protocol::Protocol;
use linerate::units::{parse_rate, parse_size};
use linerate_system::stop::Stop;
use std::error::Error;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let stop = Arc::new(Stop::new());
    stop.end_at_signals(&[signal_hook::consts::SIGINT])?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first() {
        Some((role, [server, settings @ ..])) if role == "client" => client(server, settings, &stop),
        Some((role, addresses)) if role == "server" => serve(addresses, &stop),
        _ => Err("give client HOST[:PORT]: see the head of this file".into()),
    }
}

fn client(server: &str, settings: &[String], stop: &Stop) -> Result<(), Box<dyn Error>> {
    let mut test = Iperf3Test::default();
    for setting in settings {
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        match key {
            "udp" => test.protocol = Protocol::Udp,
            "reverse" => test.direction = TestDirection::Receive,
            "bidir" => test.direction = TestDirection::Both,
            "parallel" => test.parallel = value.parse()?,
            "seconds" => test.seconds = value.parse()?,
            "omit" => test.omit_seconds = value.parse()?,
            "bytes" => test.bytes = Some(parse_size(value)?),
            "len" => test.block_bytes = Some(value.parse()?),
            "window" => test.window_bytes = Some(parse_size(value)?),
            "rate" => test.bits_per_second = Some((parse_rate(value)? * 8.0) as u64),
            "congestion" => test.congestion_control = Some(value.into()),
            "cores" => test.cores = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
            _ => return Err(format!("no setting `{key}`").into()),
        }
    }
    let outcome = run_client(parse_address(server)?, None, &test, stop, &mut |progress| {
        eprintln!(
            "{:6.2}-{:<6.2} sent {:8.3} Gb/s, received {:8.3} Gb/s, retransmits {}, lost {}",
            progress.start,
            progress.end,
            progress.sent_bytes_per_second * 8e-9,
            progress.received_bytes_per_second * 8e-9,
            progress.retransmits,
            progress.lost
        );
    })?;
    println!("{}", serde_json::to_string_pretty(&outcome)?);
    Ok(())
}

fn serve(addresses: &[String], stop: &Stop) -> Result<(), Box<dyn Error>> {
    let addresses = addresses.iter().map(|address| address.parse()).collect::<Result<Vec<_>, _>>()?;
    let server = Iperf3Server::bind(&addresses)?;
    eprintln!("listening on {:?}", server.local_addresses());
    server.serve(stop, &Iperf3Limits::default(), &mut |event| match event {
        ServerEvent::Ended(outcome) => match serde_json::to_string(outcome) {
            Ok(text) => println!("{text}"),
            Err(error) => eprintln!("{error}"),
        },
        event => eprintln!("{event:?}"),
    })?;
    Ok(())
}
