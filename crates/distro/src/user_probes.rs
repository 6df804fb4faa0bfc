//! Parses and checks the user's own probes.

use capstan_api::bootstrap::{HttpsProbe, MachineProbe};
use capstan_plan::{
    Argv, ClientFiles, FileTarget, HttpUrl, HttpsTarget, HttpsUrl, MachinePath, Probe, StepName, Target,
    TcpAddress, UnitName,
};
use std::fmt::Display;

use crate::error::InputError;
use crate::inputs::Inputs;

/// What the names of these probes begin with in a plan. No other probe of a plan begins with it.
const PREFIX: &str = "probe-";

/// How often a program is started for a probe when the user does not say.
const PROGRAM_SECONDS: u32 = 60;

/// The probes of `spec.probes` that the agent can run. All of them are checked.
pub(crate) fn of(inputs: &Inputs<'_>) -> Result<Vec<Probe>, InputError> {
    let mut probes = Vec::new();
    for wanted in &inputs.config.probes {
        let probe = read(wanted)?;
        probes.extend(inputs.runs_probe(wanted).then_some(probe));
    }
    Ok(probes)
}

fn read(wanted: &MachineProbe) -> Result<Probe, InputError> {
    let name =
        StepName::new(format!("{PREFIX}{}", wanted.name)).map_err(|error| wrong(wanted, "name", &error))?;
    let probe = Probe::new(name, target(wanted)?);
    let starts_program = matches!(probe.target, Target::Exec(_) | Target::Unit(_));
    let interval = if starts_program { PROGRAM_SECONDS } else { probe.interval_seconds };
    let number =
        |value: Option<i32>, default| value.and_then(|value| u32::try_from(value).ok()).unwrap_or(default);
    Ok(Probe {
        interval_seconds: number(wanted.interval_seconds, interval),
        timeout_seconds: number(wanted.timeout_seconds, probe.timeout_seconds),
        success_threshold: number(wanted.success_threshold, probe.success_threshold),
        failure_threshold: number(wanted.failure_threshold, probe.failure_threshold),
        ..probe
    })
}

/// The one target. An API server has checked that there is one, but a configuration may also come from elsewhere.
fn target(wanted: &MachineProbe) -> Result<Target, InputError> {
    let MachineProbe { exec, http, https, tcp, file, unit, .. } = wanted;
    match (exec, http, https, tcp, file, unit) {
        (Some(exec), None, None, None, None, None) => {
            let argv = Argv::new(exec.command.iter().map(String::as_str));
            argv.map(Target::Exec).map_err(|error| wrong(wanted, "exec.command", &error))
        }
        (None, Some(http), None, None, None, None) => {
            HttpUrl::new(&http.url).map(Target::Http).map_err(|error| wrong(wanted, "http.url", &error))
        }
        (None, None, Some(https), None, None, None) => tls(wanted, https),
        (None, None, None, Some(tcp), None, None) => TcpAddress::new(&tcp.address)
            .map(Target::Tcp)
            .map_err(|error| wrong(wanted, "tcp.address", &error)),
        (None, None, None, None, Some(file), None) => {
            let path = path(wanted, "file.path", &file.path)?;
            let max_age_seconds = file.max_age_seconds.and_then(|seconds| u32::try_from(seconds).ok());
            Ok(Target::File(FileTarget { path, max_age_seconds }))
        }
        (None, None, None, None, None, Some(unit)) => {
            UnitName::new(&unit.name).map(Target::Unit).map_err(|error| wrong(wanted, "unit.name", &error))
        }
        _ => Err(InputError::new(
            format!("spec.probes[{}]", wanted.name),
            "set exactly one of exec, http, https, tcp, file and unit",
        )),
    }
}

fn tls(wanted: &MachineProbe, https: &HttpsProbe) -> Result<Target, InputError> {
    let url = HttpsUrl::new(&https.url).map_err(|error| wrong(wanted, "https.url", &error))?;
    let ca = https.ca.as_deref().map(|ca| path(wanted, "https.ca", ca)).transpose()?;
    let client = match &https.client {
        Some(files) => Some(ClientFiles {
            certificate: path(wanted, "https.client.certificate", &files.certificate)?,
            key: path(wanted, "https.client.key", &files.key)?,
        }),
        None => None,
    };
    Ok(Target::Https(HttpsTarget { url, ca, client }))
}

fn path(wanted: &MachineProbe, field: &str, text: &str) -> Result<MachinePath, InputError> {
    MachinePath::new(text).map_err(|error| wrong(wanted, field, &error))
}

fn wrong(wanted: &MachineProbe, field: &str, error: &dyn Display) -> InputError {
    InputError::new(format!("spec.probes[{}].{field}", wanted.name), error.to_string())
}
