//! Everything that is not exactly a plan is rejected, and the error names the field.

#![cfg(test)]

mod common;

use capstan_plan::{
    Action, AgentProgram, Argv, Check, Digest, EnvVar, FileTarget, MachinePlan, OnDrift, Periodic,
    ProxyCredentials, Retry, SealedPlan, SecretText, Source, SourceProxy, Step, Target, limits,
};
use common::{CA, argv, name, path, plan, source};
use serde_json::{Value, json};

fn parse(value: &Value) -> Result<SealedPlan, String> {
    SealedPlan::parse(&serde_json::to_vec(value).unwrap()).map_err(|error| error.to_string())
}

fn written() -> Value {
    serde_json::from_slice(plan().seal().unwrap().bytes()).unwrap()
}

/// The pointer of every object in the value.
fn objects(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.push(at.to_owned());
            fields.iter().for_each(|(key, value)| objects(value, &format!("{at}/{key}"), found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, value)| objects(value, &format!("{at}/{i}"), found));
        }
        _ => {}
    }
}

#[test]
fn an_unknown_field_anywhere_is_refused() {
    let plan = written();
    assert!(parse(&plan).is_ok());
    let mut places = Vec::new();
    objects(&plan, "", &mut places);
    assert!(places.len() > 20, "{places:?}");
    for place in places {
        let mut changed = plan.clone();
        changed.pointer_mut(&place).unwrap()["surprise"] = json!(1);
        let error = parse(&changed).expect_err(&place);
        // Where a map has one key that says what it is, a second one is no unknown field but as wrong.
        assert!(error.contains("surprise") || error.contains("expected"), "{place}: {error}");
    }
}

#[test]
fn a_missing_or_mistyped_field_is_refused_without_repeating_its_value() {
    let plan = written();
    let mut places = Vec::new();
    objects(&plan, "", &mut places);
    for place in places {
        let fields: Vec<String> =
            plan.pointer(&place).unwrap().as_object().unwrap().keys().cloned().collect();
        for field in fields {
            let mut changed = plan.clone();
            changed.pointer_mut(&place).unwrap()[&field] = json!({"hunter2": "hunter2"});
            let error = parse(&changed).expect_err(&place);
            assert!(!error.contains("\"hunter2\""), "{place}/{field}: {error}");
            changed.pointer_mut(&place).unwrap().as_object_mut().unwrap().shift_remove(&field);
            // Some may be absent; then they are absent from what was read, too.
            if let Ok(read) = parse(&changed) {
                assert_eq!(serde_json::from_slice::<Value>(read.bytes()).unwrap(), changed);
            }
        }
    }
    let mut wrong = plan;
    wrong["revision"] = json!("hunter2");
    assert!(!parse(&wrong).unwrap_err().contains("hunter2"));
}

#[test]
fn versions_kinds_and_steps_from_the_future_are_refused_by_name() {
    for (place, value, said) in [
        ("/apiVersion", json!("agent.capstan.dev/v2"), "agent.capstan.dev/v2"),
        ("/kind", json!("HostPlan"), "HostPlan"),
        ("/steps/0/action", json!({"reboot": {}}), "reboot"),
        ("/steps/0/repeat", json!("weekly"), "weekly"),
        ("/steps/3/action/check/target", json!({"udp": "a:1"}), "udp"),
        ("/steps/6/action/artifact/unpack", json!("zip"), "zip"),
        ("/steps/6/action/artifact/sources/0/url", json!("http://a/b"), "a source must be https"),
        ("/steps/8/action/unit/name", json!("k3s.target"), "a unit name must be"),
    ] {
        let mut changed = written();
        *changed.pointer_mut(place).unwrap() = value;
        let error = parse(&changed).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn what_is_done_about_drift_is_written_only_if_it_is_not_the_default() {
    let spelled = |policy: &str| {
        let text = String::from_utf8(plan().seal().unwrap().bytes().to_vec()).unwrap();
        let text = text.replacen(
            "\"action\":{\"file\"",
            &format!("\"onDrift\":\"{policy}\",\"action\":{{\"file\""),
            1,
        );
        SealedPlan::parse(text.as_bytes())
    };
    assert_eq!(spelled("report").unwrap().plan().steps[1].on_drift, OnDrift::Report);
    assert!(spelled("repair").unwrap_err().to_string().contains("one spelling"));
    assert!(spelled("celebrate").unwrap_err().to_string().contains("celebrate"));
}

#[test]
fn another_spelling_of_the_same_plan_is_refused() {
    let bytes = plan().seal().unwrap().bytes().to_vec();
    let text = String::from_utf8(bytes).unwrap();
    let spaced = format!("{text}\n");
    let escaped = text.replace("web-0", "web\\u002d0");
    let fraction = text.replace("12:00:00Z", "12:00:00.000Z");
    let zone = text.replace("12:00:00Z", "13:00:00+01:00");
    let default = text.replacen("\"secret\":true", "\"secret\":false", 2);
    let mut swapped: Value = serde_json::from_str(&text).unwrap();
    let kind = swapped.as_object_mut().unwrap().shift_remove("kind").unwrap();
    swapped["kind"] = kind;
    for other in [spaced, escaped, fraction, zone, default, swapped.to_string()] {
        assert_ne!(other, text);
        let error = SealedPlan::parse(other.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("one spelling"), "{error}");
    }
    let twice =
        text.replacen("\"kind\":\"MachinePlan\",", "\"kind\":\"MachinePlan\",\"kind\":\"MachinePlan\",", 1);
    let error = SealedPlan::parse(twice.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("duplicate field"), "{error}");
    assert!(SealedPlan::parse(format!("{text}{text}").as_bytes()).is_err());
}

fn refused(change: impl FnOnce(&mut MachinePlan), said: &str) {
    let mut plan = plan();
    change(&mut plan);
    let error = plan.seal().expect_err(said).to_string();
    assert!(error.contains(said), "{error:?} should say {said:?}");
}

fn command(step: &mut Step) -> &mut capstan_plan::Command {
    match &mut step.action {
        Action::Command(command) => command,
        other => panic!("{other:?}"),
    }
}

fn artifact(step: &mut Step) -> &mut capstan_plan::Artifact {
    match &mut step.action {
        Action::Artifact(artifact) => artifact,
        other => panic!("{other:?}"),
    }
}

fn unit(step: &mut Step) -> &mut capstan_plan::Unit {
    match &mut step.action {
        Action::Unit(unit) => unit,
        other => panic!("{other:?}"),
    }
}

#[test]
fn limits_and_contradictions_are_refused_with_their_field() {
    refused(|p| p.steps.clear(), "steps: must be 1 to 1000, not 0");
    refused(
        |p| {
            let step = Step::new(name("a"), p.steps[4].action.clone());
            p.steps =
                (0..=limits::STEPS).map(|i| Step { name: name(&format!("s{i}")), ..step.clone() }).collect();
        },
        "steps: must be",
    );
    refused(|p| p.steps[1].name = name("folder"), "steps[1]: there is another one named folder");
    refused(|p| p.steps[1].timeout_seconds = 0, "steps[1].timeoutSeconds");
    refused(|p| p.steps[1].timeout_seconds = limits::TIMEOUT_SECONDS + 1, "steps[1].timeoutSeconds");
    refused(|p| p.steps[1].retry = Some(Retry::every(1, 0)), "steps[1].retry.attempts");
    refused(|p| p.steps[1].retry = Some(Retry::every(3601, 1)), "steps[1].retry.delaySeconds");
    refused(
        |p| p.steps[1].retry = Some(Retry { attempts: 1, delay_seconds: 5, max_delay_seconds: 4 }),
        "steps[1].retry.maxDelaySeconds",
    );
    refused(|p| p.steps[1].inputs = vec![name("install")], "steps[1].inputs[0]: no step named install");
    refused(|p| p.steps[1].inputs = vec![name("config")], "steps[1].inputs[0]: no step named config");
    refused(|p| command(&mut p.steps[2]).env[0].name = "1A".into(), "steps[2].action.command.env[0]");
    refused(|p| command(&mut p.steps[2]).env[0].name = "A=B".into(), "steps[2].action.command.env[0]");
    refused(|p| command(&mut p.steps[2]).env[1].name = "MODE".into(), "env[1]: there is another");
    refused(|p| command(&mut p.steps[2]).env[1].value = SecretText::new("a\0b"), "env[1]: a value cannot");
    refused(
        |p| command(&mut p.steps[2]).env[1].value = SecretText::new("x".repeat(limits::WORD_BYTES + 1)),
        "env[1].value",
    );
    refused(
        |p| command(&mut p.steps[2]).undo.as_mut().unwrap().env.push(EnvVar::new("", "")),
        "steps[2].action.command.undo.env[1]",
    );
    refused(
        |p| {
            let Action::File(file) = &mut p.steps[1].action else { panic!("a file") };
            file.owner = u32::MAX;
        },
        "steps[1].action.file.owner",
    );
    refused(|p| artifact(&mut p.steps[5]).size = 0, "steps[5].action.artifact.size: must be 1 to");
    refused(|p| artifact(&mut p.steps[5]).size = limits::ARTIFACT_BYTES + 1, "steps[5].action.artifact.size");
    refused(
        |p| artifact(&mut p.steps[5]).sources.clear(),
        "steps[5].action.artifact.sources: must be 1 to 16",
    );
    refused(
        |p| artifact(&mut p.steps[5]).sources = vec![source("file:///a"); limits::SOURCES + 1],
        "steps[5].action.artifact.sources",
    );
    refused(|p| artifact(&mut p.steps[5]).sources[0].ca = Some(CA.into()), "artifact.sources[0].ca: only an");
    refused(
        |p| artifact(&mut p.steps[6]).sources[0].ca = Some("x".into()),
        "artifact.sources[0].ca: must be",
    );
    refused(|p| artifact(&mut p.steps[6]).sources[0].ca = Some(String::new()), "artifact.sources[0].ca");
    refused(|p| artifact(&mut p.steps[6]).group = u32::MAX, "steps[6].action.artifact.group");
    refused(|p| unit(&mut p.steps[8]).content = "".into(), "steps[8].action.unit.content: must not be empty");
    refused(|p| unit(&mut p.steps[8]).stop.as_mut().unwrap().timeout_seconds = 0, "unit.stop.timeoutSeconds");
    refused(
        |p| {
            let gate = p.steps[7].clone();
            p.steps.extend(
                (0..limits::GATES).map(|i| Step { name: name(&format!("gate-{i}")), ..gate.clone() }),
            );
        },
        "gates among the steps",
    );
    let agent = |sources: &[&str]| {
        let sources = sources.iter().map(|text| source(text)).collect();
        AgentProgram { sha256: Digest::of(b"agent"), size: 5, sources }
    };
    refused(|p| p.agent = Some(agent(&[])), "agent.sources: must be 1 to 16, not 0");
    refused(
        |p| p.agent = Some(AgentProgram { size: 0, ..agent(&["file:///a"]) }),
        "agent.size: must be 1 to",
    );
    refused(|p| p.redact.push(SecretText::new("")), "redact[1]: must be");
    refused(|p| p.expires = "2026-11-16T12:00:00.5Z".parse().unwrap(), "expires");
    refused(|p| p.probes = vec![p.probes[0].clone(); limits::PROBES + 1], "probes: must be 0 to 32, not 33");
    refused(|p| p.probes.push(p.probes[0].clone()), "probes[1]: there is another one named kubelet");
    let periodic = |interval_seconds, timeout_seconds| {
        let argv = Argv::new(["fstrim", "/"]).unwrap();
        Periodic { name: name("trim"), argv, interval_seconds, timeout_seconds }
    };
    refused(|p| p.periodic = vec![periodic(60, 1); 33], "periodic: must be 0 to 32, not 33");
    refused(|p| p.periodic = vec![periodic(60, 1); 2], "periodic[1]: there is another one named trim");
    refused(
        |p| p.periodic = vec![periodic(59, 1)],
        "periodic[0].intervalSeconds: must be 60 to 31622400, not 59",
    );
    refused(
        |p| p.periodic = vec![periodic(60, 3601)],
        "periodic[0].timeoutSeconds: must be 1 to 3600, not 3601",
    );
    let proxy = |username: &str, password: &str| {
        let credentials =
            ProxyCredentials { username: username.to_owned(), password: SecretText::new(password) };
        let proxy = SourceProxy { address: "proxy:3128".parse().unwrap(), credentials: Some(credentials) };
        Source { proxy: Some(proxy), ..source("https://plane/agent") }
    };
    let agent =
        |source: Source| Some(AgentProgram { sha256: Digest::of(b"agent"), size: 5, sources: vec![source] });
    refused(
        |p| p.agent = agent(proxy("", "x")),
        "agent.sources[0].proxy.credentials.username: must be 1 to 1024, not 0",
    );
    refused(
        |p| p.agent = agent(proxy("a:b", "x")),
        "agent.sources[0].proxy.credentials.username: must not contain a colon",
    );
    refused(
        |p| p.agent = agent(proxy("a", "")),
        "agent.sources[0].proxy.credentials.password: must be 1 to 1024, not 0",
    );
    refused(
        |p| p.agent = agent(Source { proxy: proxy("a", "b").proxy, ..source("file:///srv/agent") }),
        "agent.sources[0].proxy: only an https source is reached through a proxy",
    );
    refused(
        |p| p.repair_windows = vec!["daily 01:00-05:00".to_owned(); 33],
        "repairWindows: must be 0 to 32, not 33",
    );
    refused(|p| p.repair_windows = vec!["x".repeat(129)], "repairWindows[0]: must be 1 to 128, not 129");
    refused(|p| p.host_windows = vec!["x".to_owned(); 33], "hostWindows: must be 0 to 32, not 33");
    refused(|p| p.host_windows = vec![String::new()], "hostWindows[0]: must be 1 to 128, not 0");
    refused(|p| p.probes[0].interval_seconds = 0, "probes[0].intervalSeconds");
    refused(|p| p.probes[0].timeout_seconds = 0, "probes[0].timeoutSeconds");
    refused(|p| p.probes[0].success_threshold = 0, "probes[0].successThreshold");
    refused(|p| p.probes[0].failure_threshold = 101, "probes[0].failureThreshold");
    let aged = |age| FileTarget { path: path("/a"), max_age_seconds: Some(age) };
    refused(
        |p| p.probes[0].target = Target::File(aged(0)),
        "probes[0].target.file.maxAgeSeconds: must be 1 to 316224000, not 0",
    );
    refused(
        |p| p.steps[4].action = Action::Check(Check { target: Target::File(aged(u32::MAX)) }),
        "steps[4].action.check.target.file.maxAgeSeconds",
    );
}

#[test]
fn no_two_steps_make_one_path() {
    let file = |name_: &str, path_: &str| {
        let mut step = plan().steps[1].clone();
        step.name = name(name_);
        let Action::File(file) = &mut step.action else { panic!("a file") };
        file.path = path(path_);
        step
    };
    let again = |path: &'static str| move |p: &mut MachinePlan| p.steps.push(file("again", path));
    refused(again("/etc/rancher/k3s/config.yaml"), "steps[9]: /etc/rancher/k3s/config.yaml is already");
    refused(again("/etc/rancher/k3s/config.yaml/deeper"), "is already");
    refused(again("/etc/rancher"), "is already");
    refused(again("/etc/rancher/k3s"), "is already");
    // Artifacts and units have paths, too; what comes out of an archive is its own.
    refused(again("/opt/capstan/k3s/v1/k3s"), "is already");
    refused(again("/opt/capstan/tools/v1"), "is already");
    refused(again("/opt/capstan/tools/v1/bin/deeper"), "is already");
    refused(again("/opt/capstan/tools"), "is already");
    refused(again("/etc/systemd/system/k3s.service"), "is already");
    let mut fine = plan();
    fine.steps.push(file("again", "/etc/rancher/k3s/config.yaml.d/a"));
    assert!(fine.seal().is_ok());
}

#[test]
fn a_plan_that_would_not_fit_into_a_secret_is_refused() {
    let mut large = plan();
    let Action::File(file) = &mut large.steps[1].action else { panic!("a file") };
    file.content = vec![b'x'; limits::PLAN_BYTES * 3 / 4].into();
    assert!(large.seal().unwrap_err().to_string().contains("bytes of the plan"));
    let spaces = vec![b' '; limits::PLAN_BYTES + 1];
    assert!(SealedPlan::parse(&spaces).unwrap_err().to_string().contains("bytes of the plan"));
}

#[test]
fn commands_have_words_that_can_be_run() {
    assert!(Argv::new(["true"]).is_ok());
    assert!(Argv::new([] as [&str; 0]).is_err());
    assert!(Argv::new([""]).is_err());
    assert!(Argv::new(["a", "b\0"]).is_err());
    assert!(Argv::new(vec!["a"; limits::WORDS + 1]).is_err());
    assert!(Argv::new(["a".to_owned(), "b".repeat(limits::WORD_BYTES + 1)]).is_err());
}

#[test]
fn inputs_change_with_what_has_an_effect_and_only_then() {
    let before = plan().inputs();
    let changed = |change: &dyn Fn(&mut MachinePlan)| -> Vec<String> {
        let mut plan = plan();
        change(&mut plan);
        let after = plan.inputs();
        before
            .iter()
            .filter(|(name, digest)| after[*name] != **digest)
            .map(|(name, _)| name.to_string())
            .collect()
    };
    assert_eq!(changed(&|p| p.revision = p.revision.next().unwrap()), [""; 0]);
    assert_eq!(changed(&|p| p.steps[2].timeout_seconds = 1), [""; 0]);
    assert_eq!(changed(&|p| p.steps[1].on_drift = OnDrift::Report), [""; 0]);
    assert_eq!(changed(&|p| command(&mut p.steps[2]).undo = None), [""; 0]);
    assert_eq!(changed(&|p| command(&mut p.steps[2]).creates = None), [""; 0]);
    assert_eq!(changed(&|p| command(&mut p.steps[2]).env[1].secret = false), [""; 0]);
    assert_eq!(changed(&|p| command(&mut p.steps[2]).env[1].value = SecretText::new("other")), ["install"]);
    assert_eq!(changed(&|p| command(&mut p.steps[2]).argv = argv(&["other"])), ["install"]);
    let content = |p: &mut MachinePlan| {
        let Action::File(file) = &mut p.steps[1].action else { panic!("a file") };
        file.content = "other".into();
    };
    // The command and the unit name the file as their input.
    assert_eq!(changed(&content), ["config", "install", "server"]);
    // Where an artifact comes from does not matter, what it is and where it goes does.
    assert_eq!(changed(&|p| artifact(&mut p.steps[6]).sources[0].ca = None), [""; 0]);
    assert_eq!(changed(&|p| artifact(&mut p.steps[6]).sources = vec![source("file:///a")]), [""; 0]);
    assert_eq!(changed(&|p| artifact(&mut p.steps[6]).size = 7), [""; 0]);
    assert_eq!(changed(&|p| artifact(&mut p.steps[6]).sha256 = Digest::of(b"other")), ["tools"]);
    assert_eq!(changed(&|p| artifact(&mut p.steps[6]).unpack = None), ["tools"]);
    assert_eq!(changed(&|p| artifact(&mut p.steps[6]).path = path("/opt/tools")), ["tools"]);
    assert_eq!(changed(&|p| artifact(&mut p.steps[6]).group = 0), ["tools"]);
    // A unit is restarted for its token, not for its file.
    assert_eq!(changed(&|p| unit(&mut p.steps[8]).content = "[Service]".into()), [""; 0]);
    assert_eq!(changed(&|p| unit(&mut p.steps[8]).stop = None), [""; 0]);
    assert_eq!(changed(&|p| unit(&mut p.steps[8]).restart = "v2".parse().unwrap()), ["server"]);
}
