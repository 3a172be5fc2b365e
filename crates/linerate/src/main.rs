//! The program: parse the words, do the command, give the exit status of the contract.

#![forbid(unsafe_code)]

fn main() {}
