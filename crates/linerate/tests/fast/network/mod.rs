//! `linerate network` as a user runs it: on loopback, between namespaces, with files, and with wrong input.

mod loopback;
mod peers;
mod wrong;
