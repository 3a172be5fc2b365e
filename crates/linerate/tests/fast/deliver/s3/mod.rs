//! `linerate get` and `linerate put` with object stores: a store of the test's own, which verifies signatures and
//! has faults, and another program's where it is installed.

mod fake_answers;
mod fake_store;
mod faults;
mod gets;
mod interrupted;
mod other_stores;
mod puts;
mod refusals;
mod resumed;
mod signed;
