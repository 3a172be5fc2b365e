//! A stream of `put`, on a network without sockets and a simulated clock.

mod simulated;
