//! Movies made, given up and refused.

use super::*;
use crate::geometry::{FrameRate, Size};
use crate::movie::PixelFormat;
use crate::picture::sum;

fn manifest(grid: &str, frames: u32) -> Manifest {
    Manifest {
        format: 1,
        grid: grid.parse().expect("a grid"),
        tile: Size { width: 4, height: 2 },
        pixels: PixelFormat::Rgb8,
        frames_per_second: FrameRate { numerator: 24, denominator: 1 },
        frames,
        stamped: false,
        files: BTreeMap::new(),
    }
}

fn entries(folder: &Path) -> Vec<String> {
    let list = std::fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<String> = list.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn frames_in_any_order_become_a_movie() {
    let directory = tempfile::tempdir().expect("a folder");
    let new = NewMovie::begin(&directory.path().join("film"), manifest("2x1", 3), &[]).expect("new");
    let frame = |tone: u8| vec![tone; 24];
    for (tile, from, tones) in [(1, 1, vec![4, 5]), (0, 0, vec![0, 1, 2]), (1, 0, vec![3])] {
        let bytes: Vec<u8> = tones.iter().flat_map(|tone| frame(*tone)).collect();
        let sums: Vec<u32> = tones.iter().map(|tone| sum(&frame(*tone))).collect();
        new.write(tile, from, &bytes, &sums).expect("written");
    }
    let movie = new.finish(3).expect("a movie");
    let read = Movie::open(&movie.folder).expect("a movie");
    assert_eq!(read.manifest, movie.manifest);
    assert_eq!(read.problems(), Vec::<String>::new());
    let right = TileId { row: 0, column: 1 };
    assert_eq!(std::fs::read(read.tile_path(right)).expect("a tile")[24..48], frame(4));
    assert_eq!(read.sums(right, 1, 99), [sum(&frame(4)), sum(&frame(5))]);
    assert_eq!(read.sums(right, 3, 1), Vec::<u32>::new());
    assert_eq!(read.sums(TileId { row: 1, column: 0 }, 0, 1), Vec::<u32>::new());
}

#[test]
fn what_is_given_up_is_removed_and_nothing_else() {
    let directory = tempfile::tempdir().expect("a folder");
    let (folder, disk) = (directory.path().join("film"), directory.path().join("disk"));
    std::fs::create_dir(&disk).expect("a folder");
    let spread = [directory.path().to_path_buf(), disk.clone()];
    let new = NewMovie::begin(&folder, manifest("3x1", 3), &spread).expect("new");
    assert_eq!((entries(&folder).len(), entries(&disk.join("film")).len()), (2, 1));
    std::fs::write(disk.join("film/mine"), "mine").expect("a file");
    drop(new);
    assert!(!folder.exists());
    assert_eq!(entries(&disk.join("film")), ["mine"]);
    // An empty folder of the user's stays.
    std::fs::create_dir(&folder).expect("a folder");
    drop(NewMovie::begin(&folder, manifest("1x1", 3), &[]).expect("new"));
    assert_eq!(entries(&folder), Vec::<String>::new());
}

#[test]
fn tiles_are_dealt_in_turn_over_folders() {
    let directory = tempfile::tempdir().expect("a folder");
    let disks = [directory.path().join("a"), directory.path().join("b")];
    disks.iter().for_each(|disk| std::fs::create_dir(disk).expect("a folder"));
    let new = NewMovie::begin(&directory.path().join("film"), manifest("2x2", 1), &disks).expect("new");
    for tile in 0..4 {
        new.write(tile, 0, &[0; 24], &[sum(&[0; 24])]).expect("written");
    }
    let movie = Movie::open(&new.finish(1).expect("a movie").folder).expect("a movie");
    assert_eq!(movie.problems(), Vec::<String>::new());
    assert_eq!(entries(&disks[0].join("film")), ["r0c0.rgb", "r1c0.rgb"]);
    assert_eq!(entries(&disks[1].join("film")), ["r0c1.rgb", "r1c1.rgb"]);
}

#[test]
fn nothing_is_overwritten_and_what_lacks_is_said() {
    let directory = tempfile::tempdir().expect("a folder");
    std::fs::write(directory.path().join("mine"), "mine").expect("a file");
    let begin = |folder: &Path, manifest, spread: &[PathBuf]| {
        NewMovie::begin(folder, manifest, spread).map(drop).expect_err("refused").to_string()
    };
    let full = begin(directory.path(), manifest("1x1", 1), &[]);
    assert!(full.contains("not empty"), "{full}");
    let (film, none) = (directory.path().join("film"), directory.path().join("none"));
    let above = begin(&none.join("film"), manifest("1x1", 1), &[]);
    assert!(above.contains("above it is not there"), "{above}");
    let spread = begin(&film, manifest("1x1", 1), &[none]);
    assert!(spread.contains("is not a folder"), "{spread}");
    let twice = begin(&film, manifest("1x1", 1), &[directory.path().into(), directory.path().into()]);
    assert!(twice.contains("twice"), "{twice}");
    let mut large = manifest("64x64", u32::MAX);
    large.tile = Size { width: 32_768, height: 32_768 };
    let room = begin(&film, large, &[]);
    assert!(room.contains("need") && room.contains("free"), "{room}");
    assert_eq!(entries(directory.path()), ["mine"]);
}
