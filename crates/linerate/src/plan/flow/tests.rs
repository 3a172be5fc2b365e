//! Flows over small machines.
