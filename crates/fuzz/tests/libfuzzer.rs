//! The fuzzer: libFuzzer with the target that `CAPSTAN_FUZZ_TARGET` names. `xtask/src/fuzz.rs` builds and runs it.
//!
//! Some first arguments are not for libFuzzer but for the kept inputs:
//!
//! | arguments | what they do |
//! |---|---|
//! | `targets` | print the names of all targets |
//! | `unpack FOLDER` | write the kept inputs of the target as files |
//! | `pack FOLDER` | add these files to the kept inputs of the target |
//! | `line FILE` | print a file as a line of the kept inputs |

#![cfg(test)]
#![no_main]

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::OnceLock;

use capstan_fuzz::{TARGETS, Target, corpus, find};

/// What a process tries, and where the input is kept that it tries: some failures end it before libFuzzer can write anything.
struct Session {
    target: Target,
    last: Option<File>,
}

static SESSION: OnceLock<Session> = OnceLock::new();

fn session() -> &'static Session {
    SESSION.get_or_init(|| {
        let name = std::env::var("CAPSTAN_FUZZ_TARGET").unwrap_or_default();
        let known = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
        let target = find(&name);
        let target =
            target.unwrap_or_else(|| end(&format!("CAPSTAN_FUZZ_TARGET must be one of {}", known())));
        let last =
            std::env::var_os("CAPSTAN_FUZZ_LAST").map(|path| File::create(path).expect("CAPSTAN_FUZZ_LAST"));
        Session { target, last }
    })
}

fn end(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(2)
}

/// Does what the first argument asks for, if it is not for libFuzzer.
fn serve_corpus() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["targets"] => {
            TARGETS.iter().for_each(|target| println!("{}", target.name));
            Ok(())
        }
        ["unpack", folder] => corpus::unpack(session().target.name, Path::new(folder)),
        ["pack", folder] => {
            corpus::pack(session().target.name, Path::new(folder)).map(|added| println!("{added}"))
        }
        ["line", file] => std::fs::read(file).map(|input| println!("{}", corpus::line(&input))),
        _ => return,
    };
    match done {
        Ok(()) => std::process::exit(0),
        Err(error) => end(&format!("{}: {error}", arguments.join(" "))),
    }
}

libfuzzer_sys::fuzz_target!(init: serve_corpus(), |input: &[u8]| {
    let Session { target, last } = session();
    if let Some(file) = last {
        file.set_len(0).and_then(|()| file.write_all_at(input, 0)).expect("CAPSTAN_FUZZ_LAST can be written");
    }
    (target.run)(input);
});
