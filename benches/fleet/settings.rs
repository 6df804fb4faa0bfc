//! The extent of the benchmark, from environment variables. This module does no I/O.

use std::time::Duration;

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of Capstan: embedded plane, all controllers, simulated hosts.
    Whole,
    /// Capstan's core compared with upstream's, on the same API server with the same providers.
    Core,
}

/// The extent of the benchmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `FLEET_PARTS`: `whole`, `core`, or both, separated by a comma.
    pub parts: Vec<Part>,
    /// `FLEET_CLUSTERS`: numbers of clusters, separated by commas, in ascending order.
    pub clusters: Vec<usize>,
    /// `FLEET_MACHINES`: number of machines of one large cluster; 0 skips it.
    pub machines: usize,
    /// `FLEET_CORE_CLUSTERS`: number of clusters for the comparison of cores.
    pub core_clusters: usize,
    /// `FLEET_RUNS`: number of runs.
    pub runs: usize,
    /// `FLEET_IDLE_SECONDS`: how long an idle fleet is measured.
    pub idle: Duration,
}

/// An environment variable with an invalid value.
#[derive(Debug, PartialEq, Eq)]
pub struct Unusable {
    name: &'static str,
    value: String,
    wanted: &'static str,
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={:?} must be {}", self.name, self.value, self.wanted)
    }
}

impl std::error::Error for Unusable {}

impl Settings {
    /// The extent that the documentation reports, or with `SMALL` a small one that shows that everything works. The
    /// variables of the fields override it.
    ///
    /// # Errors
    /// If a variable has an invalid value.
    pub fn from(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Unusable> {
        let small = variable("SMALL").is_some();
        let read = |name: &'static str, small_default: &str, default: &str| {
            variable(name).unwrap_or_else(|| if small { small_default } else { default }.to_owned())
        };
        let number = |name: &'static str, small_default: &str, default: &str| {
            let value = read(name, small_default, default);
            value.trim().parse::<usize>().map_err(|_| Unusable { name, value, wanted: "a number" })
        };
        let parts = read("FLEET_PARTS", "whole,core", "whole,core");
        let parts = parts.split(',').map(|part| match part.trim() {
            "whole" => Ok(Part::Whole),
            "core" => Ok(Part::Core),
            _ => Err(Unusable { name: "FLEET_PARTS", value: parts.clone(), wanted: "of whole and core" }),
        });
        let clusters = read("FLEET_CLUSTERS", "2,4", "10,100,1000");
        let wanted = "numbers above 0 with commas between";
        let unusable = || Unusable { name: "FLEET_CLUSTERS", value: clusters.clone(), wanted };
        let sizes = clusters.split(',').map(|size| size.trim().parse::<usize>());
        let mut sizes = sizes.collect::<Result<Vec<_>, _>>().map_err(|_| unusable())?;
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.first() == Some(&0) {
            return Err(unusable());
        }
        let seconds = number("FLEET_IDLE_SECONDS", "10", "60")?;
        Ok(Self {
            parts: parts.collect::<Result<_, _>>()?,
            clusters: sizes,
            machines: number("FLEET_MACHINES", "0", "3000")?,
            core_clusters: number("FLEET_CORE_CLUSTERS", "2", "100")?.max(1),
            runs: number("FLEET_RUNS", "1", "3")?.max(1),
            idle: Duration::from_secs(seconds.max(1) as u64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(variables: &[(&str, &str)]) -> Result<Settings, Unusable> {
        let found = |name: &str| variables.iter().find(|(known, _)| *known == name);
        Settings::from(|name| found(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn variables_change_the_default() {
        let full = given(&[]).unwrap();
        assert_eq!((full.clusters.as_slice(), full.machines, full.runs), (&[10, 100, 1000][..], 3000, 3));
        let small = given(&[("SMALL", "1"), ("FLEET_CLUSTERS", "30, 10"), ("FLEET_PARTS", "core")]).unwrap();
        assert_eq!((small.clusters.as_slice(), small.machines, small.runs), (&[10, 30][..], 0, 1));
        assert_eq!(small.parts, [Part::Core]);
    }

    #[test]
    fn nonsense_is_rejected_by_name() {
        for (name, value) in [("FLEET_CLUSTERS", "0"), ("FLEET_RUNS", "many"), ("FLEET_PARTS", "half")] {
            let error = given(&[(name, value)]).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
