//! Values that are marked as secret appear nowhere but where they are used.

use crate::support::{TestClock, Verbs, file, name, path, plan, shell, shut, start, verified};
use capstan_agent::probes::Prober;
use capstan_agent::real::Linux;
use capstan_agent::report::report;
use capstan_agent::store::DiskStore;
use capstan_agent::{Clock as _, Engine, Journal, Machine, Reset};
use capstan_plan::{Action, Argv, Digest, EnvVar, Phase, Probe, SecretText, Standing, Target, Undo};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use tempfile::TempDir;

const PLANTED: [&str; 6] = [
    "env-s3cret-value",
    "file-s3cret-line",
    "K10-inline-s3cret",
    "undo-s3cret-value",
    "second-s3cret-line",
    "setting-s3cret-value",
];

#[tokio::test]
async fn planted_values_are_found_nowhere() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("root");
    fs::create_dir(&root).unwrap();
    let (token, config) = (root.join("etc/token"), root.join("etc/config"));
    let filler = "head -c 4090 /dev/zero | tr '\\0' .";
    let steps = vec![
        file("token", "/etc/token", &format!("{}\n{}\n", PLANTED[1], PLANTED[4])).edit(|step| {
            let Action::File(file) = &mut step.action else { panic!("a file") };
            file.secret = true;
        }),
        file("registries", "/etc/registries", &format!("auth:\n  password: {}\n", PLANTED[5])).edit(|step| {
            let Action::File(file) = &mut step.action else { panic!("a file") };
            file.secret = true;
        }),
        // Not secret as a whole: only the token in it is.
        file("config", "/etc/config", &format!("server: a\ntoken: {}\n", PLANTED[2])),
        shell("succeed", "echo $TOKEN; echo $TOKEN | base64 >&2").env(EnvVar::secret("TOKEN", PLANTED[0])),
        // The value lies across the cut of the head, and across that of the tail.
        shell(
            "long",
            &format!(
                "{filler}; printf %s $TOKEN; {filler}; {filler}; printf %s $TOKEN; head -c 4090 /dev/zero"
            ),
        )
        .env(EnvVar::secret("TOKEN", PLANTED[0])),
        shell(
            "fail",
            &format!(
                "cat {0}; sed 's/^/> /' {0} >&2; cat {1}; echo $PUBLIC; sed -n 's/.*word: /bad login /p' {2}; exit 7",
                token.display(),
                config.display(),
                root.join("etc/registries").display()
            ),
        )
        .env(EnvVar::new("PUBLIC", "everybody-knows"))
        .command(|command| {
            command.undo = Some(Undo {
                argv: Argv::new(["sh", "-c", &format!("cat {} >&2; echo $U >&2; exit 1", token.display())])
                    .unwrap(),
                env: vec![EnvVar::secret("U", PLANTED[3])],
            });
        }),
    ];
    let mut plan = plan(1, steps);
    plan.redact = vec![SecretText::new(PLANTED[2])];
    plan.probes = vec![Probe {
        failure_threshold: 1,
        ..Probe::new(name("probe"), Target::Exec(Argv::new([format!("/no/{}", PLANTED[2])]).unwrap()))
    }];
    let plan = verified(plan);

    let state = folder.path().join("state");
    let journal = Journal::open(DiskStore::open(&state).await.unwrap()).await.unwrap();
    let mut engine = Engine::new(Linux::rooted(&root).unwrap(), journal, TestClock::new());
    let mut output = String::new();
    let end =
        engine.apply(&plan, &shut(&plan), |progress| output += &format!("{progress:?}\n")).await.unwrap();
    assert_eq!(end.phase, Phase::Failed);
    assert_eq!(end.step.as_ref().unwrap().exit_code, Some(7));
    let stdout = end.output.stdout.clone().unwrap().head.unwrap();
    assert_eq!(stdout, "[redacted]\nserver: a\ntoken: [redacted]\neverybody-knows\nbad login [redacted]\n");

    let mut prober = Prober::default();
    prober.watch(&plan, engine.clock().elapsed());
    assert!(prober.probe_due(engine.machine(), engine.clock()).await);
    assert!(!prober.results()[0].healthy);
    let facts = engine.machine().facts().await;
    let report = report(Standing::Plan(end), engine.history(), prober.results(), facts, start());
    output += &serde_json::to_string(&report).unwrap();
    output += &format!("{report:?}");

    output += &fs::read_to_string(state.join("journal")).unwrap();
    // What is needed to undo is beside it, for root only.
    let kept = fs::metadata(state.join("kept").join(Digest::of(PLANTED[3].as_bytes()).to_string())).unwrap();
    assert_eq!(kept.permissions().mode() & 0o777, 0o600);

    let Reset::Left(left) = engine.reset(Some(&plan)).await.unwrap() else { panic!("the undo fails") };
    output += &format!("{left:?}");
    assert!(left[0].reason.contains("exited with 1: [redacted]"), "{left:?}");
    let Reset::Left(left) = engine.reset(None).await.unwrap() else { panic!("the undo fails") };
    assert_eq!(left[0].reason, "its undo exited with 1", "without the plan nobody knows what is secret");

    for value in PLANTED {
        assert!(!output.contains(value), "{value} was told");
        for piece in [&value[..value.len() - 3], &value[3..]] {
            assert!(!output.contains(piece), "{piece} of {value} was told");
        }
    }
    assert!(output.contains("everybody-knows"));
    assert!(engine.history().ledger.holding(&path("/etc/token")).is_some());
}
