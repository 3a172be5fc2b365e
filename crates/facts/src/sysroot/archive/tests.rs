//! Tarballs as they come, and as somebody who means harm makes them.

use super::*;
use crate::sysroot::Sysroot;
use proptest::prelude::*;
use std::io::Write;
use tar::{Builder, EntryType, Header};

/// `proc/version` with an `x`, by `tar | xz`.
const XZ: &str = "fd377a585a0000016922de36020021011c00000010cf58cce027ff00775d00381c8a21a73eb203a78dbe136ef2eefb501ece80c6091edf0276fd6c3199a06472fc067d0b0ecb357f986c296ac39c79589bcf778682f1a3792a2237d5c87a60fa82ed41b68b265405334f051f82f5367d75d0caf0c64134be6b90aedcda891f8159487443d80fba1a803a315941fce7a5425142ba980000000a3cf0ce00018f0180500000ebc336903e300d8b020000000001595a";

/// A member whose name is written as it is, whatever it says.
fn member(tarball: &mut Builder<Vec<u8>>, kind: EntryType, name: &str, target: &str, content: &[u8]) {
    let mut header = Header::new_ustar();
    header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
    header.as_mut_bytes()[157..157 + target.len()].copy_from_slice(target.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    header.set_cksum();
    tarball.append(&header, content).expect("a member");
}

fn tarball(members: &[(EntryType, &str, &str, &[u8])]) -> Vec<u8> {
    let mut tarball = Builder::new(Vec::new());
    for (kind, name, target, content) in members {
        member(&mut tarball, *kind, name, target, content);
    }
    tarball.into_inner().expect("a tarball")
}

fn file<'a>(name: &'a str, content: &'a str) -> (EntryType, &'a str, &'a str, &'a [u8]) {
    (EntryType::Regular, name, "", content.as_bytes())
}

fn link<'a>(name: &'a str, target: &'a str) -> (EntryType, &'a str, &'a str, &'a [u8]) {
    (EntryType::Symlink, name, target, b"")
}

fn open(bytes: &[u8]) -> Sysroot {
    Sysroot::archive(Archive::read_from(bytes, &ArchiveLimits::default()).expect("an archive"))
}

fn refused(bytes: &[u8], limits: &ArchiveLimits) -> String {
    Archive::read_from(bytes, limits).expect_err("no archive").to_string()
}

#[test]
fn a_tree_below_folders_answers_like_one_on_disk() {
    let sysroot = open(&tarball(&[
        file("./home/README", "no part of it"),
        file("./home/server7/sys/devices/net/eth0/mtu", "9000\n\0\0"),
        link("./home/server7/sys/class/net/eth0", "../../devices/net/eth0"),
        link("./home/server7/sys/devices/net/eth0/driver", "../../../bus/pci/drivers/mlx5_core"),
        (EntryType::Directory, "./home/server7/proc/empty/", "", b""),
    ]));
    assert_eq!(sysroot.text("/sys/class/net/eth0/mtu").as_deref(), Ok("9000"));
    assert_eq!(sysroot.bytes("/sys/class/net/eth0/mtu").as_deref(), Ok(&b"9000\n\0\0"[..]));
    assert_eq!(sysroot.follow("/sys/class/net/eth0"), Some(PathBuf::from("/sys/devices/net/eth0")));
    assert_eq!(sysroot.link_name("/sys/class/net/eth0/driver").as_deref(), Some("mlx5_core"));
    assert_eq!(sysroot.list("/sys/class/net/eth0"), ["driver", "mtu"]);
    assert!(sysroot.is_directory("/proc/empty") && !sysroot.is_directory("/sys/class/net/eth0/mtu"));
    assert!(!sysroot.exists("/README") && !sysroot.exists("/sys/class/net/eth0/driver/module"));
    assert!(!sysroot.is_live() && sysroot.left_out().is_empty());
    let why = |path: &str| sysroot.text(path).expect_err("no file").to_string();
    assert_eq!(why("/sys/class/net"), "/sys/class/net: no regular file");
    assert_eq!(why("/proc/none"), "/proc/none: not there");
}

#[test]
fn nothing_leads_out_and_what_is_no_file_is_said() {
    let sysroot = open(&tarball(&[
        file("proc/version", "Linux\n"),
        file("../escaped", "x"),
        file("proc/../../escaped", "x"),
        file("/proc/absolute", "inside\n"),
        link("proc/out", "../../../../proc/version"),
        link("proc/etc", "/etc/passwd"),
        link("proc/loop", "loop"),
        (EntryType::Link, "proc/version", "proc/version", b""),
        (EntryType::Link, "proc/shadow", "/etc/shadow", b""),
        (EntryType::Fifo, "proc/fifo", "", b""),
        (EntryType::Char, "proc/null", "", b""),
        // A link that another member writes through: it becomes a folder of the tree.
        link("proc/through", "/tmp"),
        file("proc/through/file", "x"),
    ]));
    assert_eq!(sysroot.text("/proc/absolute").as_deref(), Ok("inside"));
    assert_eq!(sysroot.text("/proc/version").as_deref(), Ok("Linux"), "a hard link changes nothing");
    assert_eq!(sysroot.text("/proc/out").as_deref(), Ok("Linux"), "a link that climbs stays inside");
    assert!(sysroot.text("/proc/etc").is_err_and(|why| why.reason == UnreadReason::Absent));
    assert!(sysroot.text("/proc/loop").is_err_and(|why| why.reason == UnreadReason::TooManyLinks));
    assert!(!sysroot.exists("/escaped") && !sysroot.exists("/proc/fifo") && !sysroot.exists("/proc/shadow"));
    assert_eq!(sysroot.text("/proc/through/file").as_deref(), Ok("x"));
    assert_eq!(
        sysroot.left_out(),
        [
            "../escaped (its path climbs out with “..”)",
            "proc/../../escaped (its path climbs out with “..”)",
            "proc/version (a hard link)",
            "proc/shadow (a hard link)",
            "proc/fifo (a FIFO)",
            "proc/null (a device)"
        ]
    );
}

#[test]
fn every_compression_is_reported_by_its_first_bytes() {
    let plain = tarball(&[file("proc/version", "x\n")]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).expect("gzip");
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip2.write_all(&plain).expect("bzip2");
    // Two frames, as parallel compressors write them.
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let (first, second) = plain.split_at(700);
    let zstd = [first, second].map(|half| ruzstd::encoding::compress_to_vec(half, level)).concat();
    let xz =
        (0..XZ.len()).step_by(2).map(|at| u8::from_str_radix(&XZ[at..at + 2], 16).expect("hex")).collect();
    for bytes in [plain, gzip.finish().expect("gzip"), bzip2.finish().expect("bzip2"), zstd, xz] {
        assert_eq!(open(&bytes).text("/proc/version").as_deref(), Ok("x"));
        let cut = refused(&bytes[..bytes.len() * 2 / 3], &ArchiveLimits::default());
        assert!(cut.contains("damaged") || cut.contains("neither sys/") || cut.contains("nothing"), "{cut}");
    }
}

#[test]
fn what_is_no_tarball_says_what_to_name() {
    assert!(refused(b"", &ArchiveLimits::default()).contains("empty"));
    assert!(refused(b"PK\x03\x04 a zip file", &ArchiveLimits::default()).contains("gzip, bzip2, xz or zstd"));
    assert!(
        refused(&tarball(&[file("README", "x")]), &ArchiveLimits::default())
            .contains("neither sys/ nor proc/")
    );
    let away = Sysroot::at(Path::new("/nonexistent.tar")).expect_err("nothing");
    assert_eq!(away.to_string(), "/nonexistent.tar: not there; check the path");
}

#[test]
fn bombs_end_at_the_limits() {
    let small = ArchiveLimits {
        unpacked_bytes: 1 << 20,
        kept_bytes: 64 << 10,
        members: 20,
        header_bytes: 8 << 10,
        path_bytes: 60,
        depth: 8,
    };
    // 64 MiB of zeros in 64 KiB.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let mut header = Header::new_ustar();
    header.set_path("proc/zeros").expect("a path");
    header.set_size(64 << 20);
    header.set_cksum();
    gzip.write_all(header.as_bytes()).expect("gzip");
    gzip.write_all(&vec![0; 64 << 20]).expect("gzip");
    let bomb = gzip.finish().expect("gzip");
    assert!(bomb.len() < 128 << 10);
    let said = refused(&bomb, &small);
    assert!(said.contains("more than 1048576 bytes") && said.contains("proc/zeros"), "{said}");
    // A sparse file that is a hole of 2⁵⁰ bytes takes none of the archive's.
    let mut hole = Header::new_gnu();
    hole.set_path("proc/hole").expect("a path");
    hole.set_entry_type(EntryType::GNUSparse);
    hole.set_size(0);
    if let Some(gnu) = hole.as_gnu_mut() {
        gnu.realsize.copy_from_slice(b"\x80\0\0\0\0\x04\0\0\0\0\0\0");
        gnu.sparse[0].offset.copy_from_slice(b"\x80\0\0\0\0\x04\0\0\0\0\0\0");
        gnu.sparse[0].numbytes.copy_from_slice(b"00000000000\0");
    }
    hole.set_cksum();
    let said = refused(&[hole.as_bytes().as_slice(), &[0; 1024]].concat(), &small);
    assert!(said.contains("more than 1048576 bytes") || said.contains("hold more than"), "{said}");
    // A name of 100 KiB, which the reader would hold in memory.
    let mut long = Builder::new(Vec::new());
    member(&mut long, EntryType::GNULongName, "././@LongLink", "", &vec![b'a'; 100 << 10]);
    let said = refused(&long.into_inner().expect("a tarball"), &small);
    assert!(said.contains("header is larger than 8192"), "{said}");
    let names: Vec<String> = (0..30).map(|at| format!("proc/{at}")).collect();
    let many: Vec<_> = names.iter().map(|name| file(name, "")).collect();
    assert!(refused(&tarball(&many), &small).contains("more than 20 files and folders"));
    // Few members, each in folders of its own.
    let own: Vec<String> = (0..10).map(|at| format!("proc/{at}/{at}/{at}")).collect();
    let own: Vec<_> = own.iter().map(|name| file(name, "")).collect();
    assert!(refused(&tarball(&own), &small).contains("more than 20 files and folders"));
    // Links take memory, too.
    let target = "t".repeat(50);
    let links = ArchiveLimits { kept_bytes: 200, ..small.clone() };
    let linked =
        [link("proc/a", &target), link("proc/b", &target), link("proc/c", &target), link("proc/d", &target)];
    assert!(refused(&tarball(&linked), &links).contains("more than 200 bytes"));
    let large = "x".repeat(40 << 10);
    assert!(refused(&tarball(&[file("proc/a", &large), file("proc/b", &large)]), &small).contains("65536"));
    let deep = "d/".repeat(20) + "x";
    let long = "n".repeat(80);
    let odd = tarball(&[file("proc/version", "x"), file(&deep, "x"), file(&long, "x")]);
    let left_out = Archive::read_from(odd.as_slice(), &small).expect("an archive").left_out;
    assert_eq!(left_out.len(), 2, "{left_out:?}");
}

proptest! {
    #[test]
    fn any_bytes_are_an_archive_or_a_sentence(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        if let Err(why) = Archive::read_from(bytes.as_slice(), &ArchiveLimits::default()) {
            prop_assert!(!why.to_string().is_empty());
        }
    }

    #[test]
    fn a_damaged_tarball_is_read_within_its_tree(edits in proptest::collection::vec((0usize..4096, any::<u8>()), 0..12)) {
        let mut bytes = tarball(&[
            file("sys/a", "1"),
            link("sys/b", "../proc/c"),
            (EntryType::Directory, "proc/", "", b""),
            file("proc/c", "2"),
        ]);
        for (at, value) in edits {
            let length = bytes.len();
            bytes[at % length] = value;
        }
        if let Ok(archive) = Archive::read_from(bytes.as_slice(), &ArchiveLimits::default()) {
            let sysroot = Sysroot::archive(archive);
            for name in sysroot.list("/") {
                prop_assert!(!name.contains('/') && name != "..");
            }
            let _ = (sysroot.text("/sys/b"), sysroot.follow("/sys/b"), sysroot.list("/proc"));
        }
    }
}
