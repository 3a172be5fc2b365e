//! The streaming server and its screens: a movie of tiles goes from the disks over all NICs to a wall of
//! displays.
//!
//! One server reads raw frames tile by tile and sends each as RTP video (RFC 4175) to its screen, at the
//! movie's rate, the same frame on all tiles at the same tick of the hosts' clocks ([`timeline`]). [`movie`]
//! is what lies on the disks, [`rtp`] what is on the wire, [`control`] what people and screens say to the
//! server, [`status`] what it answers, `page` the same in a browser; [`show`] is a screen.

#![forbid(unsafe_code)]

pub mod control;
pub mod geometry;
pub mod layout;
pub mod movie;
pub mod need;
mod page;
pub mod picture;
pub mod rtp;
pub mod serve;
pub mod show;
pub mod status;
pub mod timeline;
