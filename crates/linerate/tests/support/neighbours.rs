//! Whether this machine had its cores to itself while a figure was taken.

#![allow(dead_code, reason = "each test takes the part that it needs")]

/// A figure that falls short while more than this share of the CPU time was stolen says nothing about
/// linerate.
pub const TOO_MUCH_STOLEN: f64 = 0.01;

/// What the host of this machine gives to its other guests: /proc/stat's `steal`, from a moment on.
pub struct Neighbours {
    stolen: u64,
    all: u64,
}

impl Neighbours {
    /// From now on.
    pub fn watch() -> Self {
        let text = std::fs::read_to_string("/proc/stat").expect("/proc/stat");
        let total = text.lines().next().expect("the sum of all CPUs");
        let ticks: Vec<u64> =
            total.split_whitespace().skip(1).map(|word| word.parse().expect("ticks")).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal; what guests of this machine use is in `user`
        // (proc_stat(5)).
        Neighbours { stolen: ticks[7], all: ticks[..8].iter().sum() }
    }

    /// The share of all CPU time that they took since.
    pub fn took(&self) -> f64 {
        let now = Neighbours::watch();
        (now.stolen - self.stolen) as f64 / ((now.all - self.all) as f64).max(1.0)
    }
}
