//! Datagrams of a measuring stream: its header and messages, and the account of whatever numbers come.

use super::Bytes;
use linerate::flow::stream::account::Account;
use linerate::flow::stream::datagram::{HEADER_BYTES, MOST_DATAGRAMS, Tags};
use linerate::flow::wire::StreamToken;

/// A token, then datagrams, each led by its length (a byte): what a receiver does with them.
pub fn stream(input: &[u8]) {
    let mut bytes = Bytes(input);
    let token: StreamToken = bytes.array();
    let (tags, mut account) = (Tags::of(&token), Account::default());
    while !bytes.is_empty() {
        let length = usize::from(bytes.byte());
        let datagram = bytes.slice(length);
        if let Some(header) = tags.read(datagram) {
            let mut again = datagram.to_vec();
            tags.write(header, &mut again);
            assert_eq!(again, datagram);
            assert!(header.number < MOST_DATAGRAMS && datagram.len() >= HEADER_BYTES);
            account.take(header.number);
        }
        if let Some(message) = tags.read_message(datagram) {
            assert_eq!(tags.read_message(&tags.message(message)), Some(message));
            assert!(tags.read(datagram).is_none(), "a message is no payload");
        }
        let came = account.received() - account.duplicated();
        assert_eq!(came + account.lost(), account.next(), "{account:?}");
    }
    let sent = account.next() + 1;
    account.finish(sent);
    assert_eq!(account.received() - account.duplicated() + account.lost(), sent);
}
