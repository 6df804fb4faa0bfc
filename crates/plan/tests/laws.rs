//! Properties of every plan. A failing case prints its seed.

#![cfg(test)]

mod common;

use capstan_plan::{
    Action, Argv, Artifact, Check, Command, Digest, Directory, EnvVar, Epoch, File, Gate, MachinePath,
    MachinePlan, Mode, Repeat, Retry, Revision, SealedPlan, SignedPlan, Source, Step, StepName, Stop, Target,
    Unit, Unpack,
};
use common::{key, machine, trusted};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use serde_json::Value;

fn path() -> impl Strategy<Value = MachinePath> {
    vec("[a-zA-Z0-9 ._ü-]{1,8}", 1..5)
        .prop_filter_map("plain", |parts| MachinePath::new(format!("/{}", parts.join("/"))).ok())
}

fn argv() -> impl Strategy<Value = Argv> {
    vec("[^\0]{1,12}", 1..5).prop_map(|words| Argv::new(words).unwrap())
}

fn env() -> impl Strategy<Value = Vec<EnvVar>> {
    btree_set("[A-Z_]{1,8}", 0..4).prop_flat_map(|names| {
        let values = vec(("[^\0]{0,12}", any::<bool>()), names.len());
        values.prop_map(move |values| {
            names
                .iter()
                .zip(values)
                .map(|(name, (value, secret))| EnvVar { secret, ..EnvVar::new(name, value) })
                .collect()
        })
    })
}

fn source() -> impl Strategy<Value = Source> {
    let ca = proptest::option::of(Just(common::CA.to_owned()));
    prop_oneof![
        ("[a-z]{1,8}", 1..=u16::MAX, ca).prop_map(|(host, port, ca)| Source {
            ca,
            ..common::source(&format!("https://{host}:{port}/x?y"))
        }),
        path().prop_map(|path| common::source(&format!("file://{path}"))),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    let mode = || (0..=0o777u32).prop_map(|bits| Mode::new(bits).unwrap());
    prop_oneof![
        (path(), vec(any::<u8>(), 0..200), mode(), 0..u32::MAX, any::<bool>()).prop_map(
            |(path, content, mode, owner, secret)| {
                Action::File(File { path, content: content.into(), mode, owner, group: owner / 2, secret })
            }
        ),
        (path(), mode(), 0..u32::MAX).prop_map(|(path, mode, owner)| Action::Directory(Directory {
            path,
            mode,
            owner,
            group: 0
        })),
        (argv(), env(), proptest::option::of(path()), proptest::option::of(argv())).prop_map(
            |(argv, env, creates, unless)| Action::Command(Command {
                argv,
                env,
                creates,
                unless,
                undo: None
            })
        ),
        argv().prop_map(|argv| Action::Check(Check { target: Target::Exec(argv) })),
        (path(), 1..u64::from(u32::MAX), mode(), proptest::option::of(any::<bool>()), vec(source(), 1..4))
            .prop_map(|(path, size, mode, unpack, sources)| {
                let unpack = unpack.map(|zst| if zst { Unpack::TarZst } else { Unpack::TarGz });
                let sha256 = Digest::of(&size.to_be_bytes());
                Action::Artifact(Artifact { sha256, size, sources, path, unpack, mode, owner: 1, group: 2 })
            }),
        ("[a-z0-9:_.-]{1,8}", "[ -~]{1,20}", vec(any::<u8>(), 1..50), proptest::option::of(argv())).prop_map(
            |(name, restart, content, stop)| {
                Action::Unit(Unit {
                    name: format!("a{name}.service").parse().unwrap(),
                    content: content.into(),
                    restart: restart.parse().unwrap(),
                    stop: stop.map(|argv| Stop { argv, timeout_seconds: 9 }),
                })
            }
        ),
        Just(Action::Gate(Gate {})),
    ]
}

fn plan() -> impl Strategy<Value = MachinePlan> {
    let repeat = prop_oneof![Just(Repeat::Once), Just(Repeat::Always), Just(Repeat::UntilSuccess)];
    let step = (action(), repeat, 1..1000u32, proptest::option::of(1..9u32));
    let head = (1..=i64::MAX as u64, any::<u64>(), 0..4_000_000_000i64);
    (head, vec(step, 1..8)).prop_map(|((revision, epoch, expires), steps)| {
        let mut plan = MachinePlan::new(
            machine(),
            Revision::new(revision).unwrap(),
            Epoch(epoch),
            jiff::Timestamp::from_second(expires).unwrap(),
        );
        for (at, (action, repeat, timeout, retry)) in steps.into_iter().enumerate() {
            let inputs = if at % 2 == 1 { vec![plan.steps[at - 1].name.clone()] } else { Vec::new() };
            plan.steps.push(Step {
                timeout_seconds: timeout,
                repeat,
                retry: retry.map(|attempts| Retry::every(1, attempts)),
                inputs,
                ..Step::new(StepName::new(format!("step-{at}")).unwrap(), action)
            });
        }
        plan
    })
}

/// What can be wrong with a plan that is still JSON.
#[derive(Clone, Debug)]
enum Twist {
    Remove,
    Repeat,
    Rename(String),
    Replace(Value),
}

fn twist() -> impl Strategy<Value = Twist> {
    let value = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~]{0,20}".prop_map(Value::from),
        "(\\.\\./|/|//|https?://|file:///)[a-z/.@:-]{0,10}".prop_map(Value::from),
        Just(Value::Array(vec![])),
        Just(Value::Object(serde_json::Map::new())),
    ];
    prop_oneof![
        Just(Twist::Remove),
        Just(Twist::Repeat),
        "[a-zA-Z]{1,10}".prop_map(Twist::Rename),
        value.prop_map(Twist::Replace),
    ]
}

/// The pointer of everything in a value.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| places(value, &format!("{at}/{key}"), found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, value)| places(value, &format!("{at}/{i}"), found));
        }
        _ => {}
    }
}

fn change(plan: &mut Value, at: &str, twist: Twist) {
    let Some((above, name)) = at.rsplit_once('/') else { return };
    match (plan.pointer_mut(above), twist) {
        (_, Twist::Replace(value)) => {
            if let Some(place) = plan.pointer_mut(at) {
                *place = value;
            }
        }
        (Some(Value::Object(fields)), Twist::Remove) => drop(fields.shift_remove(name)),
        (Some(Value::Object(fields)), Twist::Rename(new)) => {
            if let Some(value) = fields.shift_remove(name) {
                fields.insert(new, value);
            }
        }
        (Some(Value::Array(items)), twist) => {
            let at: usize = name.parse().unwrap();
            match twist {
                Twist::Repeat if at < items.len() => items.push(items[at].clone()),
                Twist::Remove if at < items.len() => drop(items.remove(at)),
                _ => {}
            }
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// `PROPTEST_CASES=100000` makes it a long search; a failing case prints its seed.
    #[test]
    fn a_twisted_plan_is_read_as_it_is_written_or_refused(
        twists in vec((any::<proptest::sample::Index>(), twist()), 1..4),
    ) {
        let mut plan: Value = serde_json::from_slice(common::plan().seal().unwrap().bytes()).unwrap();
        for (at, twist) in twists {
            let mut all = Vec::new();
            places(&plan, "", &mut all);
            change(&mut plan, &all[at.index(all.len())].clone(), twist);
        }
        let bytes = serde_json::to_vec(&plan).unwrap();
        match SealedPlan::parse(&bytes) {
            Ok(read) => {
                prop_assert_eq!(read.bytes(), &bytes[..]);
                // What is read can be sealed again, and is the same.
                let again = read.plan().clone().seal().unwrap();
                prop_assert_eq!(again.id(), read.id());
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}

proptest! {
    #[test]
    fn a_plan_comes_back_as_it_was(plan in plan()) {
        // Random paths may collide; those plans are refused, and that is tested elsewhere.
        if let Ok(sealed) = plan.clone().seal() {
            let read = SealedPlan::parse(sealed.bytes()).unwrap();
            prop_assert_eq!(read.plan(), &plan);
            prop_assert_eq!(read.id(), sealed.id());
            let data = sealed.sign(&key()).to_secret_data();
            let verified = SignedPlan::from_secret_data(&data).unwrap().verify(&trusted(), &machine()).unwrap();
            prop_assert_eq!(verified.plan(), &plan);
            prop_assert_eq!(verified.id(), sealed.id());
        }
    }

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in vec(any::<u8>(), 0..300)) {
        prop_assert!(SealedPlan::parse(&bytes).is_err());
    }

    #[test]
    fn no_change_of_a_plan_makes_the_parser_panic(
        plan in plan(),
        changes in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
    ) {
        if let Ok(sealed) = plan.seal() {
            let mut bytes = sealed.bytes().to_vec();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            // Whatever is read is what was written: nothing is guessed.
            if let Ok(read) = SealedPlan::parse(&bytes) {
                prop_assert_eq!(read.bytes(), &bytes[..]);
            }
        }
    }
}
