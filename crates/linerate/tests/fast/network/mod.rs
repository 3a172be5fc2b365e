//! `linerate network` as a user runs it: on loopback, between namespaces, with files, and with wrong input.

mod loopback;
mod no_receiver;
mod peers;
mod wrong;
