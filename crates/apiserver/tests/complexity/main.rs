//! A request costs about as much as its body is long, and each byte costs no more than some thousand instructions.
//!
//! Each form of request is sent with n, 2n and 4n items to a server under valgrind, which counts the instructions of the
//! thread that answers. Counts do not depend on what else the machine does, but on what else that thread does: a timer of the
//! server may fire during a request. If the cost is linear, the second doubling adds twice as much as the first one, and the
//! last request costs at most twice as much as the one before; if it is quadratic, four times as much. A form is wrong if both
//! say so: a timer during one request changes only one of them.
//!
//! `CAPSTAN_COMPLEXITY=1` counts. Without it each form is only sent once, to see that it is answered as expected.

#![cfg(test)]

mod forms;
#[path = "../support/mod.rs"]
mod support;

use std::{fmt::Write as _, path::Path, process::Command};

use tokio::runtime::{Builder, Runtime};

use forms::{Ask, FORMS, Form};
use support::{Caller, TestPlane};

const COUNT: &str = "CAPSTAN_COMPLEXITY";
/// Says to the process under valgrind that it is that one.
const UNDER_VALGRIND: &str = "CAPSTAN_UNDER_VALGRIND";
/// Items in the three requests of each form.
const SIZES: [usize; 3] = [400, 800, 1600];
/// The function whose instructions are counted. With a pattern valgrind 3.19 does not write the counts.
const COUNTED: &str = "complexity::answer_is_counted";
/// How much more the second doubling may add than the first one. 2 is linear, 2.2 is n log n, 4 is quadratic.
const MOST_ADDED: f64 = 2.6;
/// How much more the last request may cost than the one before. It includes what does not depend on the length.
const MOST_IN_ALL: f64 = 2.2;
/// Instructions for each byte of a request and of what it changes. A request of 3 MiB may cost so many times 3 Mi.
const MOST_PER_BYTE: f64 = 20_000.0;

#[test]
fn every_form_costs_what_its_length_is() {
    if std::env::var_os(COUNT).is_none() {
        let (runtime, plane) = plane();
        for form in &FORMS {
            run(&runtime, &plane.admin, form, 10);
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let counts = counted(folder.path());
    assert_eq!(counts.len(), FORMS.len() * SIZES.len(), "a count for each request");
    let (mut report, mut wrong) = (String::new(), Vec::new());
    for (form, counts) in FORMS.iter().zip(counts.chunks_exact(SIZES.len())) {
        let [first, second, third] = counts else { unreachable!("three sizes") };
        let added = (third - second) / (second - first);
        let in_all = third / second;
        let bytes: usize = (form.asks)("any", SIZES[2]).iter().map(|ask| ask.body.to_string().len()).sum();
        let per_byte = third / bytes as f64;
        writeln!(
            report,
            "{:<45} {first:>12.0} {second:>12.0} {third:>12.0}   {added:.2}   {in_all:.2} {per_byte:>8.0}",
            form.name
        )
        .unwrap();
        if (added > MOST_ADDED && in_all > MOST_IN_ALL) || per_byte > MOST_PER_BYTE {
            wrong.push(form.name);
        }
    }
    println!(
        "instructions for {SIZES:?} items, growth of what is added, growth in all, instructions for each byte:\n{report}"
    );
    assert!(wrong.is_empty(), "more than linear, or too much: {wrong:?}\n{report}");
}

/// Not a test of its own: what is run under valgrind.
#[test]
fn counted_process() {
    if std::env::var_os(UNDER_VALGRIND).is_none() {
        return;
    }
    let (runtime, plane) = plane();
    for form in &FORMS {
        for size in SIZES {
            run(&runtime, &plane.admin, form, size);
        }
    }
}

fn plane() -> (Runtime, TestPlane) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let plane = runtime.block_on(TestPlane::start());
    runtime.block_on(plane.admin.make(support::CRDS, &forms::crd()));
    (runtime, plane)
}

fn run(runtime: &Runtime, admin: &Caller, form: &Form, size: usize) {
    let name = format!("{}-{size}", form.name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-"));
    let mut asks = (form.asks)(&name, size);
    let last = asks.pop().unwrap();
    for ask in asks {
        let (code, answer) = runtime.block_on(send(admin, &ask));
        assert!([200, 201].contains(&code), "{}: {} {}: {answer}", form.name, ask.method, ask.path);
    }
    let code = answer_is_counted(runtime, admin, &last);
    assert_eq!(code, form.code, "{} with {size} items", form.name);
}

/// valgrind counts from the beginning of this function to its end, and writes the count to a file.
#[inline(never)]
fn answer_is_counted(runtime: &Runtime, admin: &Caller, ask: &Ask) -> u16 {
    runtime.block_on(send(admin, ask)).0
}

async fn send(admin: &Caller, ask: &Ask) -> (u16, String) {
    let (code, answer) = admin.call(ask.method, &ask.path, ask.media, &ask.body).await;
    (code, answer.to_string().chars().take(500).collect())
}

/// Instructions of all requests, in order.
fn counted(folder: &Path) -> Vec<f64> {
    let out = folder.join("counts");
    let status = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--collect-atstart=no", "--compress-strings=no"])
        .args([format!("--toggle-collect={COUNTED}"), format!("--dump-after={COUNTED}")])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "counted_process", "--nocapture", "--test-threads=1"])
        .env(UNDER_VALGRIND, "1")
        .env_remove(COUNT)
        .status()
        .expect("valgrind is installed");
    assert!(status.success(), "{status}");
    (1..)
        .map_while(|number| std::fs::read_to_string(format!("{}.{number}", out.display())).ok())
        .map(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("summary: ")).expect("a count");
            line.trim().parse().expect("a number")
        })
        .filter(|count| *count > 0.0)
        .collect()
}
