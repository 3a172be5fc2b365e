//! `linerate get` and `linerate put` onto a disk that is full, or becomes it.

use crate::support::disk_places::{Tmpfs, can_mount};
use crate::support::process::Ends;
use crate::support::served::Served;
use crate::support::{linerate, names, text, write_secret};

#[test]
fn a_disk_without_room_leaves_nothing_behind_and_says_how_much_is_needed() {
    let Some(()) = can_mount() else { return };
    let source = tempfile::tempdir().expect("a folder");
    let file = std::fs::File::create(source.path().join("large")).expect("made");
    file.set_len(64 << 20).expect("a length");
    std::fs::write(source.path().join("small"), vec![1; 600 << 10]).expect("written");
    let server = Served::start(&[source.path()], &[]);
    let place = Tmpfs::new(16, "");
    let get = |name: &str| {
        let (code, _, error) =
            linerate().args(["get", &server.url(name), "--output"]).arg(&place.path).ended().parts();
        (code, error)
    };
    let (status, error) = get("large");
    assert!(status == Some(3) && error.contains("64 MiB are needed"), "{status:?} {error}");
    assert_eq!(std::fs::read_dir(&place.path).expect("a list").count(), 0, "{error}");
    assert_eq!(get("small").0, Some(0));
    // All but a little is taken: the small file finds no room while it is written.
    std::fs::write(place.path.join("filler"), vec![1; 15 << 20]).expect("written");
    std::fs::remove_file(place.path.join("small")).expect("removed");
    std::fs::write(place.path.join("more"), vec![1; 900 << 10]).expect("written");
    let (status, error) = get("small");
    assert!(status == Some(3) && error.contains("no space is left"), "{status:?} {error}");
    assert_eq!(names(&place.path), ["filler", "more"]);
}

#[test]
fn a_server_without_room_refuses_a_file_before_it_comes_and_keeps_nothing_of_it() {
    let Some(()) = can_mount() else { return };
    let own = tempfile::tempdir().expect("a folder");
    let token = own.path().join("token");
    write_secret(&token, "0123456789abcdef0123");
    let large = std::fs::File::create(own.path().join("large")).expect("made");
    large.set_len(64 << 20).expect("a length");
    std::fs::write(own.path().join("small"), vec![1; 600 << 10]).expect("written");
    let place = Tmpfs::new(16, "");
    let server = Served::start(&[&place.path], &["--writable", "--token-file", text(&token)]);
    let put = |name: &str| {
        let (from, to) = (own.path().join(name), server.url(""));
        let (code, _, error) =
            linerate().args(["put", text(&from), &to, "--token-file", text(&token)]).ended().parts();
        (code, error)
    };
    let (status, error) = put("large");
    assert!(status == Some(3) && error.contains("no room"), "{status:?} {error}");
    assert_eq!(std::fs::read_dir(&place.path).expect("a list").count(), 0, "{error}");
    assert_eq!(put("small").0, Some(0));
    assert_eq!(std::fs::metadata(place.path.join("small")).expect("there").len(), 600 << 10);
    drop(server);
}
