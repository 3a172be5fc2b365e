//! A wall's outside: the manifest of a movie, the datagrams that anybody may send to a screen, and frames
//! that may be anything.

use linerate::wall::geometry::Size;
use linerate::wall::movie::Manifest;
use linerate::wall::picture::prove;
use linerate::wall::rtp::parse;

/// What is read is written so that it reads the same again; what is refused has one short sentence.
pub fn movie_toml(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match Manifest::parse(text) {
        Ok(manifest) => {
            assert!(manifest.frames > 0 && manifest.tile.frame_bytes() > 0);
            assert!(manifest.files.keys().all(|tile| manifest.grid.holds(*tile)));
            assert_eq!(Manifest::parse(&manifest.to_toml()), Ok(manifest));
        }
        Err(why) => {
            let why = why.to_string();
            assert!(!why.is_empty() && !why.contains('\n'), "{why:?}");
        }
    }
}

/// No datagram names pixels that it does not carry, and no frame proves itself by chance.
pub fn rtp(input: &[u8]) {
    if let Ok(packet) = parse(input) {
        let bytes: usize = packet.lines().map(|line| line.bytes.len()).sum();
        assert!(bytes <= input.len() && packet.lines().count() <= 64);
        assert!(packet.lines().all(|line| line.number < 1 << 15 && line.offset < 1 << 15));
    }
    // The smallest frame that has room for a stamp.
    let size = Size { width: 64, height: 16 };
    let mut frame = vec![0; size.frame_bytes()];
    let length = input.len().min(frame.len());
    frame[..length].copy_from_slice(&input[..length]);
    if let Ok(proof) = prove(&frame, size) {
        assert!(proof.tile.row < 256 && proof.tile.column < 256);
    }
}
