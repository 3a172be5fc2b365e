//! Parts and journals that somebody else laid beside a file: from the list of a hostile server, or in a folder that
//! others can write to. What comes of it is the right file, or none and a sentence, and nothing of others is harmed.

use super::liars::{ranges, reply};
use super::planted::{VICTIM, clear, give_away, head, journal, journal_of, part_of, plant};
use crate::support::process::Ends;
use crate::support::served::{FakeServer, Served, content, fails, get, get_json, place};
use crate::support::{linerate, names, text};
use std::os::unix::fs::{MetadataExt, symlink};

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
