//! What iperf3's JSON holds, whole or in an event of its stream.

use crate::lenient::{Number, Text, first, head};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use std::collections::HashSet;
use std::fmt::{Formatter, Result as Written};
use std::marker::PhantomData;

/// Sides of all intervals of a file: a day of eight streams has fewer.
pub(crate) const MOST_SIDES: usize = 1_500_000;

/// `start`, one of `intervals`, or `end`: each has some of these.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Part {
    pub(crate) version: Text,
    pub(crate) system_info: Text,
    pub(crate) timestamp: Timestamp,
    pub(crate) connecting_to: Host,
    pub(crate) accepted_connection: Host,
    #[serde(deserialize_with = "first::<_, _, 512>")]
    pub(crate) connected: Vec<Addresses>,
    pub(crate) sock_bufsize: Number,
    pub(crate) tcp_mss: Number,
    pub(crate) tcp_mss_default: Number,
    pub(crate) test_start: TestStart,
    #[serde(deserialize_with = "first::<_, _, 512>")]
    pub(crate) streams: Vec<Iperf3Side>,
    pub(crate) sum: Iperf3Side,
    pub(crate) sum_bidir_reverse: Iperf3Side,
    pub(crate) sum_sent: Iperf3Side,
    pub(crate) sum_received: Iperf3Side,
    pub(crate) sum_sent_bidir_reverse: Iperf3Side,
    pub(crate) sum_received_bidir_reverse: Iperf3Side,
    pub(crate) cpu_utilization_percent: Cpu,
    pub(crate) sender_tcp_congestion: Text,
}

impl Part {
    /// What it takes of the memory, in sides: its own sums, and its streams.
    pub(crate) fn sides(&self) -> usize {
        8 + self.streams.len()
    }
}

/// As many as are kept of a file.
pub(crate) fn intervals<'de, D: Deserializer<'de>>(list: D) -> Result<Vec<Part>, D::Error> {
    head(list, MOST_SIDES, Part::sides)
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Timestamp {
    pub(crate) timesecs: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Host {
    pub(crate) host: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Addresses {
    pub(crate) local_host: Text,
    pub(crate) local_port: Number,
    pub(crate) remote_host: Text,
    pub(crate) remote_port: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TestStart {
    pub(crate) protocol: Text,
    pub(crate) num_streams: Number,
    pub(crate) blksize: Number,
    pub(crate) reverse: Number,
    pub(crate) target_bitrate: Number,
    pub(crate) fqrate: Number,
}

/// Percent of a CPU; of several threads more than a hundred.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Cpu {
    pub(crate) host_total: Number,
    pub(crate) remote_total: Number,
}

/// One stream, or the sum of several, over an interval or the whole test.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Iperf3Side {
    pub(crate) seconds: Number,
    pub(crate) bytes: Number,
    pub(crate) bits_per_second: Number,
    pub(crate) retransmits: Number,
    pub(crate) max_snd_wnd: Number,
    /// Microseconds, in an interval.
    pub(crate) rtt: Number,
    /// Congestion window and the receiver's window, bytes, in an interval.
    pub(crate) snd_cwnd: Number,
    pub(crate) snd_wnd: Number,
    /// Path MTU, bytes, in an interval.
    pub(crate) pmtu: Number,
    /// Microseconds, at the end.
    pub(crate) mean_rtt: Number,
    pub(crate) min_rtt: Number,
    pub(crate) max_rtt: Number,
    pub(crate) jitter_ms: Number,
    pub(crate) lost_packets: Number,
    pub(crate) packets: Number,
    pub(crate) lost_percent: Number,
    pub(crate) out_of_order: Number,
    pub(crate) omitted: Number,
    /// In an interval whether this end sends, at the end the figures of the end that sent.
    pub(crate) sender: Sender,
    pub(crate) receiver: Option<Box<Iperf3Side>>,
    pub(crate) udp: Option<Box<Iperf3Side>>,
}

#[derive(Debug, Default)]
pub(crate) enum Sender {
    #[default]
    Unknown,
    Is(bool),
    Figures(Box<Iperf3Side>),
}

/// What an event of the stream holds: an error's is its text.
#[derive(Debug, Default)]
pub(crate) enum Event {
    #[default]
    Nothing,
    Error(Text),
    Part(Box<Part>),
}

impl Event {
    pub(crate) fn part(self) -> Option<Part> {
        match self {
            Event::Part(part) => Some(*part),
            _ => None,
        }
    }
}

/// A value that is an object, a text or a flag.
struct ObjectOr<T>(PhantomData<T>);

trait FromObjectOr<O>: Default {
    fn object(object: O) -> Self;
    fn flag(_: bool) -> Self {
        Self::default()
    }
    fn text(_: &str) -> Self {
        Self::default()
    }
}

impl FromObjectOr<Iperf3Side> for Sender {
    fn object(side: Iperf3Side) -> Self {
        Sender::Figures(Box::new(side))
    }
    fn flag(is: bool) -> Self {
        Sender::Is(is)
    }
}

impl FromObjectOr<Part> for Event {
    fn object(part: Part) -> Self {
        Event::Part(Box::new(part))
    }
    fn text(text: &str) -> Self {
        Event::Error(Text::of(text))
    }
}

impl<'de, O: Deserialize<'de>, T: FromObjectOr<O>> Visitor<'de> for ObjectOr<(O, T)> {
    type Value = T;

    fn expecting(&self, f: &mut Formatter<'_>) -> Written {
        f.write_str("an object")
    }

    fn visit_bool<E>(self, value: bool) -> Result<T, E> {
        Ok(T::flag(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        Ok(T::text(text))
    }

    fn visit_u64<E>(self, value: u64) -> Result<T, E> {
        Ok(T::flag(value != 0))
    }

    fn visit_i64<E>(self, _: i64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<T, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(T::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        let once = Once { map, keys: HashSet::new() };
        O::deserialize(MapAccessDeserializer::new(once)).map(T::object)
    }
}

/// An object in which each key counts once: iperf3 writes the sizes of the buffers again for each stream.
struct Once<A> {
    map: A,
    keys: HashSet<String>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Once<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.map.next_key::<String>()? {
            if self.keys.insert(key.clone()) {
                return seed.deserialize(key.into_deserializer()).map(Some);
            }
            self.map.next_value::<IgnoredAny>()?;
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

impl<'de> Deserialize<'de> for Sender {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_any(ObjectOr::<(Iperf3Side, Sender)>(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_any(ObjectOr::<(Part, Event)>(PhantomData))
    }
}

impl Part {
    /// Bytes per second of an interval, both directions.
    pub(crate) fn rate(&self) -> f64 {
        let whole = self.sum.bits_per_second.or_zero() + self.sum_bidir_reverse.bits_per_second.or_zero();
        let each = || self.streams.iter().map(|stream| stream.bits_per_second.or_zero()).sum();
        (if whole > 0.0 { whole } else { each() }) / 8.0
    }

    /// It is not of the seconds that `-O` leaves out.
    pub(crate) fn counts(&self) -> bool {
        let omitted = |side: &Iperf3Side| side.omitted.or_zero() > 0.0;
        !omitted(&self.sum) && !self.streams.first().is_some_and(omitted)
    }
}

impl Iperf3Side {
    /// The figures of the sending, of the receiving end, or of a stream of datagrams.
    pub(crate) fn ends(&self) -> (Option<&Iperf3Side>, Option<&Iperf3Side>) {
        let sent = match &self.sender {
            Sender::Figures(side) => Some(&**side),
            _ => None,
        };
        let udp = self.udp.as_deref();
        // A server knows nothing of the other end, and writes 0 bytes.
        let is_known = |side: &&Iperf3Side| side.bytes.or_zero() + side.packets.or_zero() > 0.0;
        (sent.or(udp).filter(is_known), self.receiver.as_deref().or(udp).filter(is_known))
    }
}

/// One test of a file.
#[derive(Debug, Default)]
pub(crate) struct Test {
    pub(crate) start: Part,
    pub(crate) intervals: Vec<Part>,
    pub(crate) end: Part,
    pub(crate) error: Text,
    /// The file holds its end.
    pub(crate) is_ended: bool,
}

impl Test {
    /// The other host, as it was named or as it came.
    pub(crate) fn peer(&self) -> Option<&str> {
        let connected = self.start.connected.first().and_then(|one| one.remote_host.get());
        let named = self.start.connecting_to.host.get().or(self.start.accepted_connection.host.get());
        connected.or(named)
    }

    /// Its server wrote the file.
    pub(crate) fn is_of_server(&self) -> bool {
        self.start.accepted_connection.host.get().is_some()
    }

    /// This end sends the one direction, or the first of both.
    pub(crate) fn sends(&self) -> bool {
        (self.start.test_start.reverse.or_zero() > 0.0) == self.is_of_server()
    }

    /// Since 3.16 each stream has its own thread.
    pub(crate) fn threads(&self) -> f64 {
        let version = self.start.version.0.trim_start_matches("iperf ").replace('+', ".");
        let mut numbers = version.split('.').map_while(|part| part.parse::<u32>().ok());
        let is_threaded = (numbers.next(), numbers.next()) >= (Some(3), Some(16));
        if is_threaded { self.start.test_start.num_streams.or_zero().max(1.0) } else { 1.0 }
    }
}
