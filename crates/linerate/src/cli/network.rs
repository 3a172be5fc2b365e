//! `linerate network`: the words made into an order, the library called, the result printed and saved.

use super::commands::{colour, complain, summary, width};
use super::output::FormatWord;
use super::progress::Progress;
use super::stop::{Saved, end_what_hangs, stop_on_signals};
use super::words::NetworkWords;
use crate::failure::Failure;
use crate::report::{self, Folder};
use crate::run::StageRun;
use crate::run::network::{NetworkOrder, conduct_iperf3, conduct_network};
use crate::sysroot::Sysroot;
use std::io::IsTerminal;

/// Measures, prints, saves.
pub fn network(words: &NetworkWords) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    let order = order(words);
    if let Some(folder) = words.output.folder() {
        Folder::check(Some(folder))?;
    }
    let saved = Saved::default();
    end_what_hangs(&stop, &saved)?;
    let mut folder: Option<Folder> = None;
    let mut save = |run: &StageRun| -> Result<(), Failure> {
        let Some(path) = words.output.folder() else {
            // From here on Ctrl-C ends with what was measured.
            saved.lock().get_or_insert_with(Default::default);
            return Ok(());
        };
        if let Some(folder) = &folder {
            return folder.save(run);
        }
        let mut place = saved.lock();
        let new = Folder::begin(Some(path), run)?;
        *place = Some(new.path().to_path_buf());
        folder = Some(new);
        Ok(())
    };
    let mut progress = Progress::new();
    let live = Sysroot::live();
    let conducted = match &words.iperf3 {
        Some(server) => conduct_iperf3(&live, &order, server, &stop, &mut progress, &mut save),
        None => conduct_network(&live, &order, &stop, &mut progress, &mut save),
    };
    progress.finish();
    let mut run = conducted?;
    let page = folder.as_ref().map(|folder| folder.save_report(&run));
    run.errors.extend(page.and_then(Result::err).map(|failure| failure.to_string()));
    words.output.print(&run, folder.as_ref(), || report::stage_terminal(&run, width(), colour()))?;
    let read_by_a_program = words.output.format() != FormatWord::Text;
    if let (Some(summary), true) =
        (summary(&run.errors), read_by_a_program || !std::io::stdout().is_terminal())
    {
        complain(&summary);
    }
    Ok(u8::from(!run.errors.is_empty()))
}

fn order(words: &NetworkWords) -> NetworkOrder {
    NetworkOrder {
        name: words.name.clone(),
        peers: words.peer.clone(),
        key_file: words.key_file.clone(),
        protocols: words.protocol.protocols(),
        directions: words.direction.iter().map(|word| word.direction()).collect(),
        streams: words.streams,
        source: words.source.clone(),
        method: words.method.map(super::words::MethodWord::method),
        write_bytes: words.write,
        datagram_bytes: words.datagram,
        bytes_per_second: words.rate,
        find_rate: words.find_rate,
        congestion_control: words.congestion_control.clone(),
        send_buffer_bytes: words.send_buffer,
        receive_buffer_bytes: words.receive_buffer,
        pin: words.pin.clone(),
        compare_pinning: words.compare_pinning,
        verify: words.verify,
        latency: !words.no_latency,
        bind_device: words.bind_device,
        trace_drops: words.trace_drops,
        seconds: words.seconds,
        repeats: words.repeats,
    }
}
