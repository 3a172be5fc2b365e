//! Members on one file system that read each other's files.

use super::*;
use crate::spec::FleetDiskSpec;
use linerate_machine::probe;
use linerate_system::stop::Stop;

fn request(source: &Path, member: u32, one_file: bool) -> DiskRequest {
    DiskRequest {
        spec: FleetDiskSpec {
            sources: vec![source.to_path_buf()],
            workers: 2,
            bytes: 256 << 10,
            transfer_bytes: 64 << 10,
            queue_depth: 2,
            direct: false,
            layout: if one_file { FileLayout::Segmented } else { FileLayout::FilePerWorker },
            reorder: true,
            write: false,
        },
        limit_bytes_per_second: None,
        shared: Some(SharedFiles {
            id: "5a5a".into(),
            one_file,
            member,
            members: 2,
            reads_of: (member + 1) % 2,
        }),
    }
}

fn files(folder: &Path) -> Vec<(String, u64)> {
    let of = |entry: std::fs::DirEntry| {
        (entry.file_name().to_string_lossy().into_owned(), entry.metadata().expect("its size").len())
    };
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("the folder").flatten().map(of).collect();
    files.sort();
    files
}

#[test]
fn a_member_reads_the_files_of_the_next_one_and_removes_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = probe::probe(&Sysroot::live());
    let stop = Arc::new(Stop::new());
    let (mut first, failures) = DiskTasks::prepare(&request(folder.path(), 0, false), &machine, &stop);
    assert_eq!(failures, []);
    let zero = Instant::now();
    let (_, alone) = first.run(false, zero, zero, &machine, &stop);
    assert!(alone[0].failure.as_ref().is_some_and(|why| why.contains("next host")), "{alone:?}");
    let (second, failures) = DiskTasks::prepare(&request(folder.path(), 1, false), &machine, &stop);
    assert_eq!(failures, []);
    assert_eq!(files(folder.path()).len(), 4, "one for each worker of each member");
    let (_, read) = first.run(false, zero, zero, &machine, &stop);
    assert_eq!((read[0].bytes, &read[0].failure), (512 << 10, &None), "{read:?}");
    drop(second);
    assert_eq!(files(folder.path()).len(), 2);
    drop(first);
    assert_eq!(files(folder.path()), []);
}

#[test]
fn one_file_has_the_parts_of_all_members() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = probe::probe(&Sysroot::live());
    let stop = Arc::new(Stop::new());
    let members: Vec<DiskTasks> = (0..2)
        .map(|member| {
            let (tasks, failures) =
                DiskTasks::prepare(&request(folder.path(), member, true), &machine, &stop);
            assert_eq!(failures, []);
            tasks
        })
        .collect();
    assert_eq!(files(folder.path()), [("linerate-disk-5a5a".into(), 1 << 20)]);
    let data = std::fs::read(folder.path().join("linerate-disk-5a5a")).expect("the file");
    let empty = data.chunks(64 << 10).filter(|part| part.iter().all(|byte| *byte == 0)).count();
    assert_eq!(empty, 0, "every part was written");
    drop(members);
    assert_eq!(files(folder.path()), []);
}

#[test]
fn streams_have_stretches_of_their_own_of_all_sources() {
    let folders = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let mut request = request(folders[0].path(), 0, false);
    request.shared = None;
    request.spec.sources = folders.iter().map(|folder| folder.path().to_path_buf()).collect();
    let machine = probe::probe(&Sysroot::live());
    let stop = Arc::new(Stop::new());
    let (tasks, failures) = DiskTasks::prepare(&request, &machine, &stop);
    assert_eq!(failures, []);
    // Two files in each of two sources.
    let stretches: Vec<(String, u64, u64)> = tasks
        .contents(8)
        .expect("eight streams")
        .into_iter()
        .map(|content| match content {
            Content::File { label, offset, length, .. } => (label, offset, length),
            Content::Memory => panic!("a stream of a server reads"),
        })
        .collect();
    for pair in stretches.chunks(2) {
        let source = |label: &str| folders.iter().position(|folder| Path::new(label).starts_with(folder));
        assert_eq!((source(&pair[0].0), source(&pair[1].0)), (Some(0), Some(1)), "both sources in turn");
    }
    for (number, (label, offset, length)) in stretches.iter().enumerate() {
        assert_eq!(*length, 128 << 10, "half of a file");
        let again = |(other, from, _): &&(String, u64, u64)| other == label && from == offset;
        assert_eq!(stretches.iter().filter(again).count(), 1, "{number}: {label} from {offset}");
    }
    let too_many = tasks.contents(1000).expect_err("a page each is too much").to_string();
    assert!(too_many.contains("larger --amount"), "{too_many}");
}
