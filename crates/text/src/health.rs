//! Health checks by name, and responses to `/healthz`, `/livez` and `/readyz` in kube-apiserver's format.
//!
//! `/readyz` fails if any check fails. `/livez` and `/healthz` fail only for what a restart may fix: a process that is
//! restarted for another reason loses its caches and its clients, and is not better afterwards.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Result of a check. The reasons are for administrators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The check passed.
    Ok,
    /// The process cannot do its work, and a restart would not change that: why.
    NotReady(String),
    /// The process cannot do its work until it is restarted: why.
    NeedsRestart(String),
}

/// A named check.
#[derive(Clone)]
pub struct Check {
    name: &'static str,
    run: Arc<dyn Fn() -> Health + Send + Sync>,
}

impl Check {
    /// `run` must be quick: any client may request it at any time.
    pub fn new(name: &'static str, run: impl Fn() -> Health + Send + Sync + 'static) -> Self {
        Self { name, run: Arc::new(run) }
    }

    /// Its name in responses.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the check.
    pub fn health(&self) -> Health {
        (self.run)()
    }

    /// A check that passes if there is a response at all.
    pub fn ping() -> Self {
        Self::new("ping", || Health::Ok)
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Check").field(&self.name).finish()
    }
}

/// A path for health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `/healthz`: the same as `/livez`.
    Healthz,
    /// `/livez`.
    Livez,
    /// `/readyz`.
    Readyz,
}

impl Endpoint {
    /// The endpoint of a first path segment.
    pub fn of(segment: &str) -> Option<Self> {
        [Self::Healthz, Self::Livez, Self::Readyz].into_iter().find(|endpoint| endpoint.name() == segment)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }

    /// Why a check fails here.
    fn failure(self, check: &Check) -> Option<String> {
        match (self, check.health()) {
            (_, Health::NeedsRestart(reason)) | (Self::Readyz, Health::NotReady(reason)) => Some(reason),
            (_, Health::Ok) | (Self::Healthz | Self::Livez, Health::NotReady(_)) => None,
        }
    }
}

/// The parameters of a request: `?verbose&exclude=NAME`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Whether every check is listed although all pass.
    pub verbose: bool,
    /// Names of checks that are not run.
    pub excluded: Vec<String>,
}

impl Parameters {
    /// Reads the decoded names and values of a query.
    pub fn of<'a>(query: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut parameters = Self::default();
        for (name, value) in query {
            match name {
                "verbose" => parameters.verbose = true,
                "exclude" => parameters.excluded.push(value.to_owned()),
                _ => {}
            }
        }
        parameters
    }
}

/// A response: 200 or 500, with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Whether the checks passed.
    pub is_healthy: bool,
    /// The body.
    pub text: String,
}

/// The response of an endpoint. It does not say why a check failed, because the path is public.
pub fn respond(endpoint: Endpoint, checks: &[Check], parameters: &Parameters) -> Response {
    let mut excluded: BTreeSet<&str> = parameters.excluded.iter().map(String::as_str).collect();
    let (mut text, mut is_healthy) = (String::new(), true);
    for check in checks {
        let name = check.name;
        if excluded.remove(name) {
            text.push_str(&format!("[+]{name} excluded: ok\n"));
        } else if endpoint.failure(check).is_some() {
            is_healthy = false;
            text.push_str(&format!("[-]{name} failed: reason withheld\n"));
        } else {
            text.push_str(&format!("[+]{name} ok\n"));
        }
    }
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.into_iter().map(|name| format!("{name:?}")).collect();
        let names = names.join(",");
        text.push_str(&format!("warn: some health checks cannot be excluded: no matches for {names}\n"));
    }
    let outcome = if is_healthy { "passed" } else { "failed" };
    text.push_str(&format!("{} check {outcome}\n", endpoint.name()));
    if is_healthy && !parameters.verbose {
        "ok".clone_into(&mut text);
    }
    Response { is_healthy, text }
}

/// The response of one check, as in `/readyz/NAME`, with the reason. `None` if there is no such check.
pub fn respond_one(endpoint: Endpoint, checks: &[Check], name: &str) -> Option<Response> {
    let check = checks.iter().find(|check| check.name == name)?;
    Some(match endpoint.failure(check) {
        None => Response { is_healthy: true, text: "ok".to_owned() },
        Some(reason) => Response { is_healthy: false, text: format!("internal server error: {reason}\n") },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(disk: Health, store: Health) -> Vec<Check> {
        vec![
            Check::ping(),
            Check::new("disk", move || disk.clone()),
            Check::new("store", move || store.clone()),
        ]
    }

    fn excluding(names: &[&str]) -> Parameters {
        Parameters { verbose: false, excluded: names.iter().map(|name| (*name).to_owned()).collect() }
    }

    #[test]
    fn passing_checks_are_listed_on_request() {
        let checks = checks(Health::Ok, Health::Ok);
        let plain = respond(Endpoint::Readyz, &checks, &Parameters::default());
        assert_eq!(plain, Response { is_healthy: true, text: "ok".to_owned() });
        let verbose = Parameters::of([("verbose", ""), ("timeout", "1s"), ("exclude", "disk")]);
        let expected = "[+]ping ok\n[+]disk excluded: ok\n[+]store ok\nlivez check passed\n";
        assert_eq!(respond(Endpoint::Livez, &checks, &verbose).text, expected);
    }

    #[test]
    fn a_failing_check_is_named_and_its_reason_withheld() {
        let checks = checks(Health::NotReady("full".to_owned()), Health::Ok);
        let response = respond(Endpoint::Readyz, &checks, &Parameters::default());
        let expected = "[+]ping ok\n[-]disk failed: reason withheld\n[+]store ok\nreadyz check failed\n";
        assert_eq!(response, Response { is_healthy: false, text: expected.to_owned() });
        let one = respond_one(Endpoint::Readyz, &checks, "disk").expect("a check");
        assert_eq!((one.is_healthy, one.text.as_str()), (false, "internal server error: full\n"));
        assert_eq!(respond_one(Endpoint::Readyz, &checks, "store").expect("a check").text, "ok");
        assert_eq!(respond_one(Endpoint::Readyz, &checks, "other"), None);
    }

    #[test]
    fn liveness_fails_only_for_what_a_restart_may_fix() {
        let full = checks(Health::NotReady("full".to_owned()), Health::Ok);
        let failed = checks(Health::Ok, Health::NeedsRestart("closed".to_owned()));
        for (endpoint, expected) in [
            (Endpoint::Healthz, (true, false)),
            (Endpoint::Livez, (true, false)),
            (Endpoint::Readyz, (false, false)),
        ] {
            let is_healthy = |checks| respond(endpoint, checks, &Parameters::default()).is_healthy;
            assert_eq!((is_healthy(&full), is_healthy(&failed)), expected, "{endpoint:?}");
            assert_eq!(respond_one(endpoint, &full, "disk").expect("a check").is_healthy, expected.0);
        }
    }

    #[test]
    fn an_excluded_check_does_not_fail_the_response() {
        let checks = checks(Health::NotReady("full".to_owned()), Health::Ok);
        assert!(respond(Endpoint::Readyz, &checks, &excluding(&["disk"])).is_healthy);
        let response = respond(Endpoint::Readyz, &checks, &excluding(&["a", "b"]));
        let warning = "warn: some health checks cannot be excluded: no matches for \"a\",\"b\"\n";
        assert!(!response.is_healthy && response.text.contains(warning), "{}", response.text);
    }
}
