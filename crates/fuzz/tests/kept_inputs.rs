//! Every kept input, without a fuzzer: what once failed, and what reaches code that random bytes do not.

#![cfg(test)]

use capstan_fuzz::{TARGETS, corpus, works};
use std::collections::BTreeSet;

#[test]
fn every_kept_input_is_survived() {
    for target in TARGETS {
        let inputs = corpus::kept(target.name).unwrap();
        assert!(!inputs.is_empty(), "{} has no inputs to begin with", target.name);
        for input in inputs {
            let line = corpus::line(&input);
            let tried = std::panic::catch_unwind(|| (target.run)(&input));
            assert!(tried.is_ok(), "{}: {line}", target.name);
        }
    }
    works();
}

#[test]
fn every_file_of_the_corpus_belongs_to_a_target() {
    let files: BTreeSet<String> = std::fs::read_dir(corpus::folder())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    let expected: BTreeSet<String> = TARGETS.iter().map(|target| format!("{}.txt", target.name)).collect();
    assert_eq!(files, expected);
}
