//! Where this process is in a job of a launcher, as its environment says: no library of MPI or PMIx is asked.
//!
//! Open MPI: `OMPI_COMM_WORLD_RANK` (mpirun(1)); MPICH and others with PMI-1: `PMI_RANK`; Slurm: `SLURM_PROCID`
//! in a step (srun(1)); Kubernetes: `JOB_COMPLETION_INDEX` of an indexed Job.

use crate::hosts;
use std::fmt;
use std::path::PathBuf;

/// What started the processes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobLauncher {
    OpenMpi,
    Pmi,
    Slurm,
    Kubernetes,
}

impl fmt::Display for JobLauncher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JobLauncher::OpenMpi => "an Open MPI job",
            JobLauncher::Pmi => "an MPI job",
            JobLauncher::Slurm => "a Slurm step",
            JobLauncher::Kubernetes => "a Kubernetes Job",
        })
    }
}

impl JobLauncher {
    /// How its processes get the key.
    pub fn key_line(self, key: &str, command: &str) -> String {
        match self {
            JobLauncher::OpenMpi => format!("LINERATE_KEY={key} mpirun -x LINERATE_KEY … {command}"),
            JobLauncher::Pmi => format!("LINERATE_KEY={key} mpiexec … {command}"),
            JobLauncher::Slurm => format!("LINERATE_KEY={key} srun … {command}"),
            JobLauncher::Kubernetes => {
                format!("kubectl create secret generic linerate-key --from-literal=LINERATE_KEY={key}")
            }
        }
    }
}

/// One process of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRank {
    pub launcher: JobLauncher,
    pub rank: u32,
    /// Processes of the job; none where the environment does not say (Kubernetes).
    pub size: Option<u32>,
    /// Names or addresses where rank 0 may be, most likely first; empty where the environment does not say.
    pub rank_0: Vec<String>,
    /// A file of this job's own in the home folder, which most clusters share between hosts; none where the job has no
    /// name or the user no home. From a login node the launcher is on another host than rank 0.
    pub home_file: Option<PathBuf>,
}

impl JobRank {
    /// That of this process; none where no launcher started it.
    pub fn of_this_process() -> Option<JobRank> {
        JobRank::of(|name| std::env::var(name).ok())
    }

    /// The same by any environment.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Option<JobRank> {
        let number = |name: &str| variable(name).and_then(|text| text.trim().parse::<u32>().ok());
        let home = variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let rank = |launcher, rank, size, rank_0, job: Option<String>| {
            let home_file = job.zip(home).map(|(job, home)| home.join(file_of(&job)));
            Some(JobRank { launcher, rank, size, rank_0, home_file })
        };
        if let Some(own) = number("OMPI_COMM_WORLD_RANK") {
            let uri = variable("OMPI_MCA_orte_hnp_uri");
            let at = uri.as_deref().map(hosts_of_uri).unwrap_or_default();
            let job = variable("PMIX_NAMESPACE").or_else(|| Some(uri?.split(';').next()?.to_string()));
            return rank(JobLauncher::OpenMpi, own, number("OMPI_COMM_WORLD_SIZE"), at, job);
        }
        // A batch script of Slurm has a rank as well; only a step has a number.
        if let (Some(own), Some(step)) = (number("SLURM_PROCID"), variable("SLURM_STEP_ID")) {
            let nodes = variable("SLURM_STEP_NODELIST").or_else(|| variable("SLURM_JOB_NODELIST"));
            let first = nodes.and_then(|nodes| hosts::expand(&nodes).ok()?.into_iter().next());
            let size = number("SLURM_STEP_NUM_TASKS").or_else(|| number("SLURM_NTASKS"));
            let job = variable("SLURM_JOB_ID").map(|job| format!("{job}.{step}"));
            return rank(JobLauncher::Slurm, own, size, first.into_iter().collect(), job);
        }
        if let Some(own) = number("PMI_RANK") {
            // PMI-1 has no name of the job in the environment.
            return rank(JobLauncher::Pmi, own, number("PMI_SIZE"), Vec::new(), None);
        }
        let own = number("JOB_COMPLETION_INDEX")?;
        // A pod of an indexed Job is called JOB-INDEX, and its first one JOB-0 in the same subdomain.
        let pod = variable("HOSTNAME").unwrap_or_default();
        let first = pod.strip_suffix(&format!("-{own}")).map(|job| format!("{job}-0"));
        rank(JobLauncher::Kubernetes, own, None, first.into_iter().collect(), None)
    }

    /// Other processes run beside it.
    pub fn is_one_of_several(&self) -> bool {
        self.size.map_or(self.rank > 0, |size| size > 1)
    }

    /// What a command that knows nothing of jobs answers in one.
    pub fn refusal(&self, command: &str) -> String {
        let of = self.size.map(|size| format!(" of {size}")).unwrap_or_default();
        format!(
            "this is rank {}{of} of {}: every rank would run `linerate {command}` by itself and disturb the \
             others; use `linerate fleet pairs` there, or start {command} on one host",
            self.rank, self.launcher
        )
    }
}

/// Letters of a job's name that a file has.
const MOST_OF_NAME: usize = 100;

/// What the file of a job is called, whatever the launcher calls the job.
fn file_of(job: &str) -> String {
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "-.".contains(letter) { letter } else { '_' };
    let name: String = job.chars().take(MOST_OF_NAME).map(plain).collect();
    format!(".linerate-fleet-{name}")
}

/// Addresses of `1234.0;tcp://10.0.0.1,192.168.1.1:40123`, or of `…tcp6://[fd00::1]:40123`.
fn hosts_of_uri(uri: &str) -> Vec<String> {
    let Some((_, rest)) = uri.split_once("://") else { return Vec::new() };
    let rest = rest.split(';').next().unwrap_or_default();
    let Some((addresses, _port)) = rest.rsplit_once(':') else { return Vec::new() };
    let plain = |text: &str| text.trim_matches(['[', ']']).to_string();
    addresses.split(',').map(plain).filter(|address| !address.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(environment: &[(&str, &str)]) -> Option<JobRank> {
        JobRank::of(|name| {
            environment.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn each_launcher_shows_its_rank_and_where_the_first_one_is() {
        let open_mpi = of(&[
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "8"),
            ("OMPI_MCA_orte_hnp_uri", "1234.0;tcp://10.0.0.1,192.168.1.1:40123"),
        ]);
        let open_mpi = open_mpi.expect("a rank");
        assert_eq!((open_mpi.rank, open_mpi.size), (3, Some(8)));
        assert_eq!(open_mpi.rank_0, ["10.0.0.1", "192.168.1.1"]);
        assert!(open_mpi.refusal("run").contains("rank 3 of 8 of an Open MPI job"));
        let slurm = of(&[
            ("SLURM_PROCID", "0"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_STEP_NUM_TASKS", "4"),
            ("SLURM_STEP_NODELIST", "n[03-04],m1"),
            ("PMI_RANK", "0"),
        ]);
        let slurm = slurm.expect("a rank");
        assert_eq!((slurm.launcher, slurm.rank_0), (JobLauncher::Slurm, vec!["n03".to_string()]));
        let mpich = of(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")]).expect("a rank");
        assert_eq!((mpich.launcher, mpich.rank, mpich.size), (JobLauncher::Pmi, 1, Some(2)));
        let pod = of(&[("JOB_COMPLETION_INDEX", "2"), ("HOSTNAME", "fleet-2")]).expect("a rank");
        assert_eq!((pod.rank, pod.size, pod.rank_0), (2, None, vec!["fleet-0".to_string()]));
    }

    #[test]
    fn ranks_of_a_job_have_a_file_in_common_and_those_of_another_have_not() {
        let home = ("HOME", "/home/ann");
        let file = |environment: &[(&str, &str)]| of(environment).expect("a rank").home_file;
        let open_mpi =
            |namespace| file(&[("OMPI_COMM_WORLD_RANK", "1"), ("PMIX_NAMESPACE", namespace), home]);
        let named = open_mpi("prterun-login-71@1").expect("a file");
        assert_eq!(named.to_string_lossy(), "/home/ann/.linerate-fleet-prterun-login-71_1");
        assert_ne!(open_mpi("../../etc/x"), open_mpi("../../etc/y"));
        assert!(
            open_mpi("../../etc/x").is_some_and(|file| file.parent().is_some_and(|at| at.ends_with("ann")))
        );
        let by_uri =
            [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_MCA_orte_hnp_uri", "1234.0;tcp://10.0.0.1:1"), home];
        assert!(file(&by_uri).is_some_and(|file| file.ends_with(".linerate-fleet-1234.0")));
        let step = [("SLURM_PROCID", "1"), ("SLURM_STEP_ID", "2"), ("SLURM_JOB_ID", "77"), home];
        assert!(file(&step).is_some_and(|file| file.ends_with(".linerate-fleet-77.2")));
        assert_eq!(file(&[("PMI_RANK", "1"), home]), None);
        assert_eq!(file(&by_uri[..2]), None, "no home");
    }

    #[test]
    fn one_process_alone_and_a_batch_script_are_no_job() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")]), None, "sbatch runs the script once");
        let alone = of(&[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")]).expect("a rank");
        assert!(!alone.is_one_of_several());
        assert_eq!(of(&[("PMI_RANK", "x")]), None);
    }

    #[test]
    fn addresses_of_a_uri_are_read_whatever_it_holds() {
        assert_eq!(hosts_of_uri("1.0;tcp6://[fd00::1]:1"), ["fd00::1"]);
        for other in ["", "tcp://", "x", "a://b", "tcp://:1", ";;;://::"] {
            hosts_of_uri(other);
        }
    }
}
