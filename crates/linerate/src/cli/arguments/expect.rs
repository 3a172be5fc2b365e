//! `--expect`: what a result has to hold to.

use clap::Args;
use std::path::PathBuf;

/// The same for all commands that measure, look or compare.
#[derive(Clone, Debug, Default, Args)]
pub struct ExpectArgs {
    /// Hold the result to this rule, like 'path >= 0.9 likely', 'disk:* >= 3GB/s', 'p99 < 10ms', 'network loss < 0.1%',
    /// 'probe: no link below its best', 'twins within 10%', 'like node3.json' (of a comparison 'like first') or 'as
    /// usual', or to those of a TOML file; repeat for several. Each has its line; exit status 5: one failed, 6: one
    /// cannot be judged
    #[arg(long, value_name = "RULE|FILE")]
    pub expect: Vec<String>,
    /// Write what became of the rules into this file as well, as JUnit XML for a CI; replaced where it is there
    #[arg(long, value_name = "FILE", requires = "expect")]
    pub junit: Option<PathBuf>,
}
