//! A run from its first step to its diagnosis: [`mod@measure`] takes the figures of memory, disks, network and path;
//! [`diagnose`] makes predictions, bottleneck and findings of them, without the machine; [`run`] conducts each
//! command and holds its result; [`event`] is what a screen hears meanwhile.

#![forbid(unsafe_code)]

pub mod diagnose;
pub mod event;
pub mod measure;
pub mod run;
