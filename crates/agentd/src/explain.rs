//! `capstan-agent explain`: who this machine is, whom it obeys, what it does and what it waits for. Reads only; asks
//! the management plane one thing, to see whether it answers.

use capstan_agent::journal::{End, History, decode};
use capstan_agent::real::running_commands;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::fmt::Write as _;

use crate::config::Config;
use crate::credential::{Credential, Key};
use crate::enroll::{is_ours, reports};
use crate::paths::Paths;
use crate::status::{self, Status};
use crate::{Failure, files, print, service};

pub(crate) async fn run(paths: &Paths, is_json: bool) -> Result<(), Failure> {
    let found = look(paths).await;
    if is_json {
        return print(&format!("{found:#}\n"));
    }
    print(&words(&found))
}

/// Everything there is to say, and first of all what stands in the way.
async fn look(paths: &Paths) -> Value {
    let mut obstacles = Vec::new();
    let config = Config::read(paths).map_err(|error| obstacles.push(error.to_string())).ok();
    let status = status::read(paths);
    let service = if paths.is_machine() { service::state().await } else { None };
    let credential = credential(paths, config.as_ref(), &mut obstacles);
    let connection = match (&config, &credential) {
        (Some(config), Some(credential)) => connection(config, credential).await,
        _ => Err("there is no credential to ask with".to_owned()),
    };
    if let Err(why) = &connection {
        obstacles.push(format!("connection: {why}"));
    }
    let history = history(paths, &mut obstacles);
    obstacles.extend(of_daemon(status.as_ref(), service.as_deref()));
    let obeys = status.as_ref().and_then(|status| status.obeys.as_ref());
    if let (Some(config), Some(obeys)) = (&config, obeys)
        && *obeys != config.stamp()
    {
        obstacles.push(
            "the service still obeys the management plane it was taken from: systemctl restart capstan-agent"
                .to_owned(),
        );
    }
    obstacles.extend(of_plan(&history, status.as_ref()));
    let running = running(paths, &mut obstacles);
    let credential = credential.map(|credential| {
        json!({"from": credential.issued_at, "to": credential.expires_at, "renewal": credential.renewal()})
    });
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "machine": config.as_ref().map(|config| json!({
            "name": config.machine(), "machineID": config.machine_id(), "namespace": config.namespace(),
            "server": config.address(), "tokenLeft": config.token().is_some(),
            "plane": config.plane(), "epoch": config.epoch().0.max(history.epoch.0),
        })),
        "credential": credential,
        "connection": match connection { Ok(()) => json!("ok"), Err(why) => json!(why) },
        "service": service,
        "daemon": status,
        "journal": summary(&history),
        "running": running,
        "obstacles": obstacles,
    })
}

fn credential(paths: &Paths, config: Option<&Config>, obstacles: &mut Vec<String>) -> Option<Credential> {
    if let Err(error) = Key::read(paths) {
        obstacles.push(error.to_string());
    }
    let credential = config.and_then(|config| Credential::read(paths, config).ok().flatten());
    match (&credential, config.and_then(Config::token)) {
        (None, Some(_)) => obstacles.push("this machine has not enrolled yet".to_owned()),
        (None, None) => obstacles.push(
            "this machine has no credential and no token to get one with: bootstrap it again".to_owned(),
        ),
        (Some(credential), _) if credential.is_over(Timestamp::now()) => {
            obstacles.push(format!(
                "the credential expired at {}: bootstrap this machine again, unless the manager reaches it",
                credential.expires_at
            ));
        }
        (Some(credential), _) if credential.issued_at > Timestamp::now() => {
            obstacles.push(format!(
                "the credential is valid from {} on: is the clock right?",
                credential.issued_at
            ));
        }
        _ => {}
    }
    credential
}

async fn connection(config: &Config, credential: &Credential) -> Result<(), String> {
    let api = credential.api(config).map_err(|error| error.to_string())?;
    let report = api.get(&format!("{}/{}", reports(config), config.machine())).await;
    match report {
        Ok(report) if is_ours(&report, config) => Ok(()),
        Ok(_) => Err("the report of this name is another machine's: this machine was replaced".to_owned()),
        Err(error) if error.is_status(403) => {
            Err(format!("{error}; was the Machine deleted? then this machine waits to be reset"))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// What the journal says, without opening it: the daemon has it open.
pub(crate) fn history(paths: &Paths, obstacles: &mut Vec<String>) -> History {
    let mut history = History::default();
    let path = paths.state().join("journal");
    let read = files::read(&path).map_err(|error| error.to_string());
    let decoded = read
        .and_then(|bytes| bytes.map(|bytes| decode(&bytes).map_err(|error| error.to_string())).transpose());
    match decoded {
        Ok(decoded) => {
            let entries = decoded.map(|decoded| decoded.entries).unwrap_or_default();
            entries.into_iter().for_each(|entry| history.record(entry));
        }
        Err(error) => obstacles.push(format!("{}: {error}", path.display())),
    }
    history
}

/// Commands that run now: also while the daemon does not.
fn running(paths: &Paths, obstacles: &mut Vec<String>) -> Vec<Value> {
    let folder = paths.commands();
    let running = running_commands(&folder).unwrap_or_else(|error| {
        obstacles.push(format!("{}: {error}", folder.display()));
        Vec::new()
    });
    running
        .iter()
        .map(|command| json!({"command": command.key.to_string(), "since": command.since}))
        .collect()
}

fn of_daemon(status: Option<&Status>, service: Option<&str>) -> Vec<String> {
    let mut obstacles = Vec::new();
    if let Some(state) = service.filter(|state| *state != "active") {
        obstacles.push(format!("the service capstan-agent is {state}: see journalctl --unit capstan-agent"));
    }
    let Some(status) = status else {
        if service.is_none() {
            obstacles.push("`capstan-agent run` has written no status: it does not run".to_owned());
        }
        return obstacles;
    };
    for (what, link) in [("plan", &status.plan_source), ("report", &status.report), ("lease", &status.lease)]
    {
        if let (Some(false), Some(message)) = (link.works, &link.message) {
            let since = link.since.map(|since| format!(" since {since}")).unwrap_or_default();
            obstacles.push(format!("{what}:{since} {message}"));
        }
    }
    obstacles.extend(status.journal.iter().cloned());
    obstacles
}

fn of_plan(history: &History, status: Option<&Status>) -> Vec<String> {
    let mut obstacles = Vec::new();
    if history.resetting {
        obstacles.push("a reset has begun and is not finished: no plan is obeyed until it is".to_owned());
    }
    let said = status.and_then(|status| status.said.as_ref());
    if let Some(rejected) = said.map(|said| &said["agentProgram"]["rejected"]).filter(|it| it.is_object()) {
        let message = rejected["message"].as_str().unwrap_or("no reason was given");
        obstacles.push(format!("the program of the agent in the plan does not work here: {message}"));
    }
    match said.and_then(|said| said["phase"].as_str()) {
        None if status.is_some() => obstacles.push("there is no plan yet".to_owned()),
        Some(phase @ ("Refused" | "Failed" | "Waiting")) => {
            let message = said.and_then(|said| said["message"].as_str()).unwrap_or("no reason was given");
            obstacles.push(format!("the plan is {phase}: {message}"));
        }
        _ => {}
    }
    for item in said.and_then(|said| said["drift"].as_array()).into_iter().flatten() {
        if item["repaired"].is_null() {
            let text = |field: &str| item[field].as_str().unwrap_or_default();
            let message = item["message"].as_str().map(|text| format!(": {text}")).unwrap_or_default();
            obstacles.push(format!("drift at step {}: {}{message}", text("step"), text("found")));
        }
    }
    if let Some(next) = status.and_then(|status| status.next_try) {
        obstacles.extend(said.and_then(|said| said["message"].as_str()).map(str::to_owned));
        obstacles.push(format!("the step is tried again at {next}"));
    }
    obstacles
}

fn summary(history: &History) -> Value {
    let current = history.current.as_ref().map(|current| {
        let end = match &current.end {
            None => json!("not ended"),
            Some(End::Applied) => json!("applied"),
            Some(End::Failed { reason, .. }) => json!(reason),
        };
        json!({
            "revision": current.plan.revision().get(), "digest": current.plan.digest().to_string(),
            "stepsDone": current.done.len(), "lastStep": current.last.as_ref().map(|last| &last.step), "end": end,
        })
    });
    let held: Vec<&str> = history.ledger.holdings().map(|holding| holding.path.as_str()).collect();
    json!({
        "epoch": history.epoch.0,
        "current": current,
        "applied": history.applied.map(|plan| plan.revision().get()),
        "resetting": history.resetting,
        "held": held,
    })
}

/// The same for people: what stands in the way first.
fn words(found: &Value) -> String {
    let text = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut out = String::new();
    let mut line = |what: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{what:<12} {value}");
    };
    let machine = &found["machine"];
    line(
        "machine",
        format!(
            "{} ({}) in namespace {}",
            text(&machine["name"]),
            text(&machine["machineID"]),
            text(&machine["namespace"])
        ),
    );
    line("server", text(&machine["server"]));
    line(
        "obeys",
        format!("plane {} and no manager before epoch {}", text(&machine["plane"]), text(&machine["epoch"])),
    );
    let credential = &found["credential"];
    line(
        "credential",
        match credential {
            Value::Null => "none".to_owned(),
            credential => {
                format!("until {}, renewed at {}", text(&credential["to"]), text(&credential["renewal"]))
            }
        },
    );
    line("connection", text(&found["connection"]));
    line("service", text(&found["service"]));
    let (said, current) = (&found["daemon"]["said"], &found["journal"]["current"]);
    line(
        "plan",
        match said["plan"]["revision"].as_u64() {
            Some(revision) => format!("revision {revision}: {}", text(&said["phase"])),
            None => "none was seen".to_owned(),
        },
    );
    if let Some(step) = said["step"]["name"].as_str() {
        line(
            "step",
            format!("{step} ({} of {})", text(&said["step"]["index"]), text(&said["step"]["total"])),
        );
    }
    line(
        "journal",
        match current["revision"].as_u64() {
            Some(revision) => format!("revision {revision}: {}", text(&current["end"])),
            None => "no plan was begun".to_owned(),
        },
    );
    for command in found["running"].as_array().into_iter().flatten() {
        line("runs", format!("{} since {}", text(&command["command"]), text(&command["since"])));
    }
    match found["obstacles"].as_array().map(Vec::as_slice) {
        None | Some([]) => line("waits for", "nothing".to_owned()),
        Some(obstacles) => obstacles.iter().for_each(|obstacle| line("because", text(obstacle))),
    }
    out
}
