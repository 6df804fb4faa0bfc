//! The last output of each step of a plan, bounded in total, as it is reported. Pure.

use capstan_plan::{Excerpt, StepName, StepOutput, StepTail, limits};
use jiff::Timestamp;

use crate::journal::Outcome;

/// Adds the output of an attempt that has ended. The newest is the first, and the oldest go when there are too many bytes.
pub(crate) fn record(outputs: &mut Vec<StepTail>, step: &StepName, outcome: &Outcome, at: Timestamp) {
    outputs.retain(|other| other.step != *step);
    let (stdout, stderr) = ends(&outcome.output);
    if stdout.is_none() && stderr.is_none() {
        return;
    }
    let tail =
        StepTail { step: step.clone(), exit_code: outcome.exit_code, finished: Some(at), stdout, stderr };
    outputs.insert(0, tail);
    let mut room = limits::OUTPUTS_BYTES;
    let fits = outputs.iter().take(limits::OUTPUTS).take_while(|tail| {
        let size = size(tail);
        let fits = size <= room;
        room = room.saturating_sub(size);
        fits
    });
    outputs.truncate(fits.count());
}

/// The ends of what a command has printed: standard output, and standard error.
pub(crate) fn ends(output: &StepOutput) -> (Option<String>, Option<String>) {
    (end(output.stdout.as_ref()), end(output.stderr.as_ref()))
}

fn size(tail: &StepTail) -> usize {
    [&tail.stdout, &tail.stderr].into_iter().flatten().map(String::len).sum()
}

/// The end of a text.
fn end(excerpt: Option<&Excerpt>) -> Option<String> {
    let excerpt = excerpt?;
    let whole = [&excerpt.head, &excerpt.tail].into_iter().flatten();
    // What is left out lies before the tail.
    let whole: String = match excerpt.omitted_bytes {
        Some(1..) => excerpt.tail.clone().unwrap_or_default(),
        _ => whole.map(String::as_str).collect(),
    };
    let cut = whole.char_indices().rev().nth(limits::TAIL_CHARACTERS - 1).map_or(0, |(at, _)| at);
    Some(whole[cut..].to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(stdout: Excerpt) -> Outcome {
        let output = StepOutput { stdout: Some(stdout), stderr: None };
        Outcome { exit_code: Some(0), output, ..Outcome::default() }
    }

    fn text(text: impl Into<String>) -> Excerpt {
        Excerpt { head: Some(text.into()), ..Excerpt::default() }
    }

    fn said(outputs: &[StepTail]) -> Vec<(String, String)> {
        let said = |tail: &StepTail| (tail.step.to_string(), tail.stdout.clone().unwrap_or_default());
        outputs.iter().map(said).collect()
    }

    #[test]
    fn the_last_output_of_each_step_is_kept_the_newest_first() {
        let mut outputs = Vec::new();
        for (step, stdout) in [("a", "1"), ("b", "2"), ("a", "3"), ("c", ""), ("b", "")] {
            let step = step.parse().expect("a name");
            record(&mut outputs, &step, &outcome(text(stdout)), Timestamp::UNIX_EPOCH);
        }
        assert_eq!(said(&outputs), [("a".to_owned(), "3".to_owned())], "b has printed nothing the last time");
    }

    #[test]
    fn the_end_of_a_text_is_kept() {
        for (excerpt, expected) in [
            (text("x".repeat(3000)), "x".repeat(1024)),
            (
                Excerpt { tail: Some("end".to_owned()), omitted_bytes: Some(9), ..text("begin") },
                "end".to_owned(),
            ),
            (
                Excerpt { tail: Some("end".to_owned()), omitted_bytes: Some(0), ..text("begin") },
                "beginend".to_owned(),
            ),
        ] {
            assert_eq!(end(Some(&excerpt)), Some(expected));
        }
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many_bytes_or_steps() {
        let step = |number: usize| format!("s{number}").parse::<StepName>().expect("a name");
        let mut outputs = Vec::new();
        for number in 0..100 {
            record(&mut outputs, &step(number), &outcome(text("ü".repeat(1024))), Timestamp::UNIX_EPOCH);
            assert!(outputs.iter().map(size).sum::<usize>() <= limits::OUTPUTS_BYTES);
        }
        assert_eq!((outputs.len(), &outputs[0].step, &outputs[3].step), (4, &step(99), &step(96)));
        for number in 0..100 {
            record(&mut outputs, &step(number), &outcome(text("x")), Timestamp::UNIX_EPOCH);
        }
        assert_eq!((outputs.len(), &outputs[0].step), (limits::OUTPUTS, &step(99)));
    }
}
