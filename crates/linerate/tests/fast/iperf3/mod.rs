//! linerate as one end of iperf3's protocol: against Debian's iperf3, against itself, and against those who
//! mean no test.

mod debian;
mod fairness;
mod hostile_clients;
mod hostile_servers;
mod own;
mod peers;
