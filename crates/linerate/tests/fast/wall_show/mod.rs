//! `linerate wall show` against senders: our datagrams, GStreamer's, ffmpeg's; forged ones, another version,
//! one that stops; with a server and without.

mod server;

use crate::support::process::Ends;
use crate::support::sender::{Sender, noise, stamped};
use crate::support::wall_players::{ScreenProcess, listening};
use linerate::agent::Key;
use linerate::wall::control::{Hub, HubSettings};
use linerate::wall::geometry::Size;
use server::OneTile;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const SIZE: Size = Size { width: 160, height: 90 };

/// Starts it on ports that the kernel chooses, so many of them, and waits until it listens.
fn screens(count: usize, words: &[&str]) -> ScreenProcess {
    let mut command = crate::support::linerate();
    command.args(["wall", "show", "--until-silent", "1.5", "--seconds", "30"]);
    command.args(["--listen", "127.0.0.1:0"].repeat(count)).args(words);
    listening(command, count)
}

#[test]
fn frames_of_our_own_are_proven_on_three_screens_of_one_process() {
    let screen = screens(3, &["--verify", "--json"]);
    let senders = screen.addresses.iter().zip(0..).map(|(address, column)| {
        let (address, frames) = (*address, stamped(SIZE, column, 4));
        std::thread::spawn(move || Sender::new(address, SIZE, 1400).play(&frames, 24))
    });
    senders.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().expect("sent"));
    let (output, screens) = screen.finish();
    assert_eq!(output.status.code(), Some(0), "{screens:?}");
    assert_eq!(screens.len(), 3);
    for screen in &screens {
        let report = &screen.report;
        assert_eq!((report.frames_proven, report.frames_wrong, report.frames_torn), (24, 0, 0), "{screen:?}");
        assert_eq!((report.frames_shown + report.frames_late, report.datagrams_lost), (24, 0), "{screen:?}");
        assert_eq!((screen.size, screen.size_from.as_deref()), (Some(SIZE), Some("stream")));
        assert_eq!(screen.frames_per_second, "24".parse().ok());
        assert_eq!((screen.timing.as_deref(), screen.verified_by.as_deref()), (Some("clock"), Some("stamp")));
        assert_eq!(report.frame, Some(23 % 4));
        assert!(report.presented_p50_ms.is_some_and(|ms| ms >= 90.0), "{report:?}");
    }
}

#[test]
fn a_wrong_pixel_a_lost_datagram_and_a_sender_that_stops_within_a_frame_are_reported() {
    let screen = screens(1, &["--verify", "--json"]);
    let mut frames = stamped(SIZE, 0, 8);
    // Within the picture, not the stamp: one bit.
    frames[2][SIZE.frame_bytes() - 5] ^= 1;
    let mut sender = Sender::new(screen.addresses[0], SIZE, 1400);
    for (index, frame) in frames.iter().enumerate() {
        sender.frame(frame, |part| !(index == 4 && part == 3 || index == 7 && part > 9));
    }
    let (output, screens) = screen.finish();
    let report = &screens[0].report;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!((report.frames_proven, report.frames_wrong, report.frames_torn), (5, 1, 2), "{screens:?}");
    assert_eq!((report.frames_missing, report.datagrams_lost), (0, 1), "{screens:?}");
    assert!(screens[0].problems.iter().any(|problem| problem.contains("wrong frame")), "{screens:?}");
}

#[test]
fn a_forged_stream_and_another_version_are_counted_and_not_believed() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.rgb");
    let screen = screens(1, &["--json", "--write", out.to_str().expect("a name")]);
    let address = screen.addresses[0];
    let (frames, black) = (noise(SIZE, 6), vec![vec![0; SIZE.frame_bytes()]; 6]);
    let (mut ours, mut forged) = (Sender::new(address, SIZE, 1400), Sender::new(address, SIZE, 1400));
    let mut sent = 0;
    for (frame, black) in frames.iter().zip(&black) {
        ours.frame(frame, |_| true);
        sent += forged.frame(black, |_| true);
        // RTP of another version from our own address.
        ours.raw(&[0x40; 200]);
        sent += 1;
    }
    let (output, screens) = screen.finish();
    assert_eq!(output.status.code(), Some(0), "{screens:?}");
    let report = &screens[0].report;
    assert_eq!((report.datagrams_foreign, screens[0].datagrams_malformed), (sent, 6), "{screens:?}");
    assert_eq!((report.frames_torn, report.datagrams_lost, screens[0].streams), (0, 0, 1), "{screens:?}");
    assert!(std::fs::read(out).expect("written") == frames.concat());
}

#[test]
fn a_server_says_what_to_expect_and_hears_how_it_goes() {
    let key = Key::random().expect("a key");
    let folder = tempfile::tempdir().expect("a folder");
    let key_file = folder.path().join("key");
    std::fs::write(&key_file, format!("{}\n", key.to_hex())).expect("a key file");
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&key_file, std::fs::Permissions::from_mode(0o600)).expect("permissions");
    // Not stamped: the server's checksums prove the frames.
    let frames = noise(SIZE, 6);
    let tile = Arc::new(OneTile::new(SIZE, &frames));
    let settings = HubSettings { listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))], page: None, key };
    let hub = Hub::start(tile.clone(), settings).expect("a hub");
    let server = hub.addresses()[0].to_string();
    let key_file = key_file.to_str().expect("a name");
    let words = ["--verify", "--json", "--server", &server, "--tile", "r0c0", "--key-file", key_file];
    let screen = screens(1, &words);
    tile.await_join(Duration::from_secs(10));
    std::thread::sleep(Duration::from_millis(200));
    // Another SSRC from the same host is not believed, although it comes first.
    let mut forged = Sender::new(screen.addresses[0], SIZE, 1400);
    let foreign = forged.frame(&frames[0], |_| true);
    let mut sender =
        Sender::new(screen.addresses[0], SIZE, 1400).with_ssrc(tile.ssrc).begins_at(tile.first_tick());
    sender.play(&frames, 30);
    let (output, screens) = screen.finish();
    let report = &screens[0].report;
    assert_eq!(output.status.code(), Some(0), "{screens:?}");
    assert_eq!(
        (report.frames_proven, report.frames_wrong, report.datagrams_foreign),
        (30, 0, foreign),
        "{screens:?}"
    );
    assert_eq!((screens[0].server_answered, screens[0].size_from.as_deref()), (Some(true), Some("server")));
    assert_eq!(screens[0].verified_by.as_deref(), Some("server"));
    // The last report tells the end.
    let told = tile.report().expect("a report");
    assert_eq!((told.tile, told.frames_proven), (report.tile, 30), "{told:?}");
}

/// A stock sender's frames, received with `words` and written: exact, in order, none lost.
fn exact(name: &str, file: &Path, frames: &[u8], words: &[&str], sender: impl FnOnce(SocketAddr) -> Command) {
    let out = file.with_extension("out");
    let mut all = vec!["--json", "--write", out.to_str().expect("a name")];
    all.extend(words);
    let screen = screens(1, &all);
    let address = screen.addresses[0];
    let status = sender(address).stdout(Stdio::null()).stderr(Stdio::null()).status().expect("it runs");
    assert!(status.success(), "{name}: {status}");
    let (output, screens) = screen.finish();
    assert_eq!(output.status.code(), Some(0), "{name}: {screens:?}");
    let report = &screens[0].report;
    assert_eq!(
        (report.datagrams_lost, report.frames_torn, report.frames_missing),
        (0, 0, 0),
        "{name}: {screens:?}"
    );
    assert_eq!(screens[0].frames_per_second, "24".parse().ok(), "{name}: {screens:?}");
    assert!(std::fs::read(out).expect("written") == frames, "{name}: {screens:?}");
}

fn is_installed(program: &str, version: &str) -> bool {
    let ran = Command::new(program).arg(version).stdout(Stdio::null()).stderr(Stdio::null()).status();
    ran.is_ok_and(|status| status.success())
}

#[test]
fn gstreamers_own_sender_is_received_exactly() {
    if !is_installed("gst-launch-1.0", "--version") || !is_installed("gst-inspect-1.0", "rtpvrawpay") {
        eprintln!("skipped: gst-launch-1.0 with rtpvrawpay is not installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("reference.rgb");
    let size = Size { width: 640, height: 400 };
    // More than 65,536 datagrams would take 5 s: the wrap is tried in the unit tests. Its first number is
    // random.
    let frames = noise(size, 24).concat();
    std::fs::write(&file, &frames).expect("written");
    exact("GStreamer", &file, &frames, &[], |address| {
        let mut command = Command::new("gst-launch-1.0");
        let from = format!("filesrc location={} blocksize=768000", file.display());
        let to = format!("udpsink host=127.0.0.1 port={} sync=true", address.port());
        let line = format!(
            "-q {from} ! rawvideoparse width=640 height=400 format=rgb framerate=24/1 ! rtpvrawpay mtu=1400 \
             ! {to}"
        );
        command.args(line.split(' '));
        command
    });
}

#[test]
fn ffmpegs_own_sender_is_received_exactly() {
    if !is_installed("ffmpeg", "-version") {
        eprintln!("skipped: ffmpeg is not installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("reference.rgb");
    let frames = noise(SIZE, 24).concat();
    std::fs::write(&file, &frames).expect("written");
    // ffmpeg writes no rate into its description, but puts it into the timestamps.
    let sdp = folder.path().join("ffmpeg.sdp");
    let description = "v=0\r\nc=IN IP4 127.0.0.1\r\nm=video 5004 RTP/AVP 96\r\na=rtpmap:96 raw/90000\r\n\
        a=fmtp:96 sampling=RGB; width=160; height=90; depth=8\r\n";
    std::fs::write(&sdp, description).expect("written");
    exact("ffmpeg", &file, &frames, &["--sdp", sdp.to_str().expect("a name")], |address| {
        let mut command = Command::new("ffmpeg");
        command.args([
            "-nostdin", "-v", "error", "-re", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "160x90", "-r",
            "24", "-i",
        ]);
        command.arg(&file).args("-c:v rawvideo -pix_fmt rgb24 -strict experimental -f rtp".split(' '));
        command.arg(format!("rtp://127.0.0.1:{}", address.port()));
        command
    });
}

#[test]
fn wrong_words_are_reported_and_a_port_in_use_too() {
    let run = |words: &[&str]| {
        let output = crate::support::linerate().args(["wall", "show", "--seconds", "1"]).args(words).ended();
        (output.status.code(), output.stderr)
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.sdp");
    std::fs::write(&file, "v=0\r\nm=video 5004 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n").expect("written");
    let holder = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let taken = holder.local_addr().expect("an address").to_string();
    let file = file.to_str().expect("a name");
    for (words, status, why) in [
        (&["--verify"][..], 2, "--listen"),
        (
            &["--listen", "0.0.0.0:0", "--listen", "0.0.0.0:0", "--write", "one.rgb"],
            2,
            "--write is given 1 times",
        ),
        (&["--listen", "nowhere"], 2, "not an address to listen on"),
        (&["--window", "none", "--listen", "127.0.0.1:0", "--sdp", file], 3, "raw/90000"),
        (&["--listen", "192.0.2.1:5004", "--verify"], 3, "no address of this machine"),
        (&["--listen", &taken, "--window", "none"], 3, "another program"),
    ] {
        let (code, told) = run(words);
        assert_eq!(code, Some(status), "{words:?}: {told}");
        assert!(told.contains(why), "{words:?}: {told}");
    }
    // Nothing comes: it says so, and with --verify that is a failure.
    let (code, _) = run(&["--listen", "127.0.0.1:0", "--verify", "--json"]);
    assert_eq!(code, Some(1));
}
