//! Parts and journals that somebody else laid beside a file: from the list of a hostile server, or in a folder that
//! others can write to. What comes of it is the right file, or none and a sentence, and nothing of others is harmed.

use super::liars::{ranges, reply};
use super::planted::{
    BLOCK, VICTIM, clear, give_away, head, journal, journal_of, part_of, plant, plant_at_random,
};
use crate::support::process::{Ends, beside_each_other};
use crate::support::served::{FakeServer, Served, content, fails, get, get_json, place};
use crate::support::{linerate, names, text};
use linerate::deliver::get::{ExcludedNames, GetSpec, fetch, find};
use linerate::deliver::tls::TlsTrust;
use linerate_system::stop::Stop;
use linerate_testing::folder_in_memory;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

const TAG: &str = "ETag: \"a\"\r\n";
const TAGS: (Option<&str>, Option<&str>) = (Some("\"a\""), None);

/// A server of a folder with these files, as `linerate serve` lists them.
fn listing(files: Vec<(&'static str, Vec<u8>)>) -> FakeServer {
    let entry = |(name, bytes): &(&str, Vec<u8>)| {
        format!("{{\"name\":\"{name}\",\"href\":\"{name}\",\"kind\":\"file\",\"bytes\":{}}}", bytes.len())
    };
    let entries: Vec<String> = files.iter().map(entry).collect();
    let list = format!("{{\"entries\":[{}]}}", entries.join(","));
    FakeServer::start(move |head, stream| {
        let target = head.split(' ').nth(1).unwrap_or_default();
        let file = files.iter().find(|(name, _)| target == format!("/{name}"));
        let body = file.map_or(list.as_bytes(), |(_, bytes)| bytes);
        let lines = format!("Content-Length: {}\r\n", body.len());
        match (head.starts_with("HEAD"), file) {
            (true, Some(_)) => reply(stream, "200 OK", &lines, b""),
            (true, None) => reply(stream, "200 OK", "Linerate: list\r\nContent-Length: 0\r\n", b""),
            (false, _) => reply(stream, "200 OK", &lines, body),
        }
    })
}

#[test]
fn a_hostile_folder_poisons_no_later_download() {
    let right = content(71, (6 << 20) + 1);
    let (_folder, data, out) = place(&right);
    let honest = Served::start(&[&data], &[]);
    let answer = honest.get("/file", "Range: bytes=0-0\r\n");
    let tags = (answer.line("ETag"), answer.line("Last-Modified"));
    // The inode cannot be known, but guessed.
    let wrong: Vec<u8> = right.iter().map(|byte| !byte).collect();
    let lines = journal(&head(&honest.url("file"), right.len(), tags, &data), &wrong, 'v');
    for [part, journal] in
        [[".file.linerate-part", ".file.linerate-journal"], [".file.LINERATE-PART", ".file.Linerate-Journal"]]
    {
        let files =
            vec![("readme", b"hello".to_vec()), (part, wrong.clone()), (journal, lines.clone().into())];
        let hostile = listing(files);
        fails(&[&hostile.url(""), "--output", text(&out)], 3, "unfinished files are called so");
        fails(&[&hostile.url(part), "--output", text(&out)], 3, "unfinished files are called so");
        assert_eq!(names(&out), [""; 0]);
    }
    // As if it had come through all the same, with all that is bound right.
    for mark in ['r', 'v'] {
        plant(&out, &honest.url("file"), tags, &wrong, mark);
        let (status, report, errors) = get_json(&[&honest.url("file"), "--output", text(&out)]);
        assert_eq!(status, Some(0), "{errors}");
        assert_eq!(report["transfer"]["files"][0]["kept_bytes"], 0, "{report}");
        assert!(std::fs::read(out.join("file")).expect("there") == right, "{mark}");
        assert_eq!(names(&out), ["file"]);
        std::fs::remove_file(out.join("file")).expect("removed");
    }
}

#[test]
fn what_a_server_without_sums_cannot_confirm_is_said() {
    let right = content(72, 6 << 20);
    let (_folder, _, out) = place(b"");
    let server = ranges(right.clone(), TAG, |_, _| {});
    let url = server.url("file");
    // Of an earlier start of this user: nobody can say whether it is right.
    plant(&out, &url, TAGS, &right, 'r');
    let output = get(&[&url, "--output", text(&out)]);
    let said = &output.stdout;
    assert!(
        output.status.success() && said.contains("6 MiB kept from an earlier start, not compared"),
        "{said}"
    );
    assert!(!said.contains("verified"), "{said}");
    std::fs::remove_file(out.join("file")).expect("removed");
    plant(&out, &url, TAGS, &right, 'r');
    let (status, report, errors) = get_json(&[&url, "--output", text(&out)]);
    let file = &report["transfer"]["files"][0];
    assert_eq!(status, Some(0), "{errors}");
    assert_eq!(
        (&file["kept_not_compared_bytes"], &file["verified"]),
        (&right.len().into(), &serde_json::json!([]))
    );
    std::fs::remove_file(out.join("file")).expect("removed");
    // The user's own sum is of all of it.
    plant(&out, &url, TAGS, &vec![7; right.len()], 'r');
    fails(&[&url, "--output", text(&out), "--sha256", &"0".repeat(64)], 1, "nothing of it was kept");
    assert_eq!(names(&out), [""; 0]);
}

#[test]
fn a_part_and_a_journal_of_another_user_are_refused_and_left() {
    let right = content(73, (6 << 20) + 1);
    let (_folder, _, out) = place(b"");
    let server = ranges(right.clone(), TAG, |_, _| {});
    let url = server.url("file");
    let wrong = vec![7; right.len()];
    plant(&out, &url, TAGS, &wrong, 'r');
    if !give_away(&part_of(&out)) || !give_away(&journal_of(&out)) {
        eprintln!("skipped: only root can give a file away");
        return;
    }
    fails(&[&url, "--output", text(&out)], 3, "belongs to another user (number 65534)");
    assert!(std::fs::read(part_of(&out)).expect("it stays") == wrong);
    assert_eq!(std::fs::metadata(journal_of(&out)).expect("it stays").uid(), 65_534);
    assert!(!out.join("file").exists());
    clear(&out);
    let (status, _, errors) = get_json(&[&url, "--output", text(&out)]);
    assert_eq!(status, Some(0), "after the remedy: {errors}");
    let owner = std::fs::metadata(&out).expect("a folder").uid();
    assert_eq!(std::fs::metadata(out.join("file")).expect("there").uid(), owner);
}

#[test]
fn side_files_lead_to_no_other_file() {
    let right = content(74, (6 << 20) + 1);
    let (folder, data, out) = place(&right);
    let server = Served::start(&[&data], &[]);
    let url = server.url("file");
    let words = [&url, "--output", text(&out)];
    let victim = folder.path().join("victim");
    std::fs::write(&victim, VICTIM).expect("written");
    std::fs::create_dir(&out).expect("a folder");
    for path in [part_of(&out), journal_of(&out)] {
        symlink(&victim, &path).expect("a link");
        fails(&words, 3, "it is a link");
        assert_eq!(names(&out).len(), 1, "only the link: {:?}", names(&out));
        std::fs::remove_file(&path).expect("removed");
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo runs");
        assert!(made.success());
        fails(&words, 3, "it is not a regular file");
        std::fs::remove_file(&path).expect("removed");
    }
    std::fs::hard_link(&victim, part_of(&out)).expect("a second name");
    let (status, _, errors) = get_json(&words);
    assert_eq!(status, Some(0), "{errors}");
    assert!(std::fs::read(out.join("file")).expect("there") == right);
    assert_eq!(std::fs::read(&victim).expect("there"), VICTIM);
}

#[test]
fn a_folder_puts_no_dotfiles_into_the_home_folder() {
    let (folder, data, _) = place(b"plain");
    let home = folder.path().join("home");
    std::fs::create_dir(&home).expect("a folder");
    std::fs::write(data.join(".bashrc"), "hostile").expect("written");
    let server = Served::start(&[&data], &[]);
    let get = |url: &str, options: &[&str]| {
        let mut command = linerate();
        command.arg("get").arg(url).args(options).env("HOME", &home).current_dir(&home);
        let output = command.ended();
        (output.status.code(), output.stderr)
    };
    let (status, errors) = get(&server.url(""), &[]);
    assert!(status == Some(2) && errors.contains(".bashrc") && errors.contains("--output"), "{errors}");
    assert_eq!(names(&home), [""; 0]);
    assert_eq!(get(&server.url(""), &["--output", "other"]).0, Some(0));
    assert_eq!(names(&home.join("other")), [".bashrc", "file"]);
    // The user named it.
    assert_eq!(get(&server.url(".bashrc"), &[]).0, Some(0));
    assert_eq!(names(&home), [".bashrc", "other"]);
}

/// What came of one transfer within this process: its exit status, and whether it says that it was verified.
fn get_here(url: &str, out: &Path) -> (u8, bool, u64) {
    let stop = Stop::new();
    let spec = GetSpec {
        urls: vec![url.parse().expect("a URL")],
        output: out.into(),
        streams: 1,
        nics: Vec::new(),
        addresses: Vec::new(),
        replace: false,
        keeps_same: false,
        is_other_half: false,
        sha256: None,
        bytes_per_second: None,
        token: None,
        store: None,
        trust: TlsTrust::default(),
        timeout: Duration::from_secs(30),
        excluded: ExcludedNames::default(),
        awaited: None,
        archive: None,
    };
    let found = find(&spec, &stop).expect("the server answers");
    let end = fetch(&spec, found, &AtomicU64::new(0), None, &stop).expect("a folder");
    let file = &end.run.transfer.as_ref().expect("files").files[0];
    (end.exit_status(), !file.verified.is_empty(), file.kept_not_compared_bytes)
}

/// `LINERATE_STATES` says how many; the counts are printed.
#[test]
fn no_state_of_a_part_and_its_journal_makes_a_wrong_file_pass() {
    let states = std::env::var("LINERATE_STATES").ok().and_then(|text| text.parse().ok()).unwrap_or(120u64);
    let (small, large) = (content(75, (1 << 20) + 77), content(76, BLOCK + (1 << 20)));
    let lines = [TAG, "ETag: \"a\"\r\nLinerate: blocks\r\n"];
    let servers = lines.map(|lines| {
        [&small, &large].map(|right| (ranges(right.clone(), lines, |_, _| {}), lines != TAG, right))
    });
    let [verified, kept, fetched, refused] = [const { AtomicU32::new(0) }; 4];
    beside_each_other(0..states, |number| {
        let folder = folder_in_memory();
        let out = folder.path().join("out");
        let mut state = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (server, has_sums, right) = &servers[number as usize % 2][usize::from(number % 8 > 5)];
        let url = server.url("file");
        let of_file = head(&url, right.len(), TAGS, folder.path());
        let laid = plant_at_random(&mut state, &out, right, &of_file);
        let (status, is_verified, kept_bytes) = get_here(&url, &out);
        let case = format!("state {number}: {laid:?}, status {status}, verified {is_verified}");
        let landed = std::fs::read(out.join("file")).ok();
        let is_right = landed.as_ref().is_none_or(|own| own == *right);
        // Without sums nobody can say of what this user's own earlier start left, and the report has that.
        assert!(is_right || !has_sums && !is_verified && kept_bytes > 0, "{case}");
        assert_eq!(landed.is_some(), status == 0, "{case}");
        assert_eq!(std::fs::read(folder.path().join("victim")).expect("there"), VICTIM, "{case}");
        for (path, laid) in laid {
            assert!(!laid.is_foreign() || status != 0 && path.symlink_metadata().is_ok(), "{case}");
        }
        if landed.is_some() {
            let of = |path: &Path| std::fs::metadata(path).expect("there");
            assert_eq!((of(&out.join("file")).uid(), names(&out).len()), (of(&out).uid(), 1), "{case}");
        }
        let count = match (status, is_verified, kept_bytes) {
            (0, true, _) => &verified,
            (0, false, 0) => &fetched,
            (0, false, _) => &kept,
            _ => &refused,
        };
        count.fetch_add(1, Ordering::Relaxed);
    });
    let count = |count: &AtomicU32| count.load(Ordering::Relaxed);
    println!(
        "{states} states: {} verified, {} fetched from a server without sums, {} with bytes kept and not compared, {} \
         refused; 0 wrong bytes verified",
        count(&verified),
        count(&fetched),
        count(&kept),
        count(&refused)
    );
    assert!([&verified, &fetched, &kept, &refused].iter().all(|counted| count(counted) > 0 || states < 100));
}
