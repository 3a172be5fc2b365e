//! The ledger on real kernels' counters: drops are planted in two network namespaces of the test's own, and
//! each is named with its layer and its cure, and nothing is left unaccounted.

mod faults;
mod ground;
mod listing;
mod roles;
mod traced;
