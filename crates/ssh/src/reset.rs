//! Decides from the answer of a host whether its reset was complete. Pure.

use capstan_infrastructure::ResetState;
use serde::Deserialize;

use crate::CLAIMS;
use crate::facts::plain;
use crate::script::Answer;

/// More than anybody reads.
const MOST_LEFT: usize = 200;
/// A line is cut here.
const LONGEST_LINE: usize = 400;

/// What the agent says of its own reset.
#[derive(Deserialize)]
struct AgentReset {
    clean: bool,
    #[serde(default)]
    left: Vec<String>,
}

/// Reads the answer of [`leave`](crate::job::leave).
pub(crate) fn read(answer: &Answer, claim: &str) -> Option<ResetState> {
    match answer.get("state")? {
        "clean" => Some(ResetState::Clean),
        "running" => Some(ResetState::Running),
        "other" => {
            let described = |other: &str| {
                let other = plain(other, LONGEST_LINE);
                format!("{CLAIMS}/{other}, the claim of another machine: nothing of it was undone")
            };
            Some(ResetState::Dirty { left: answer.all("other").map(described).take(MOST_LEFT).collect() })
        }
        "dirty" | "stuck" => {
            let agent: Option<AgentReset> =
                answer.text("agent").and_then(|text| serde_json::from_str(text.trim()).ok());
            let of_agent = agent.filter(|agent| !agent.clean).map(|agent| agent.left).unwrap_or_default();
            let ours = answer.text("left").unwrap_or_default();
            let folder = format!("{CLAIMS}/{claim}, which says more in reset.log");
            let all = of_agent.iter().map(String::as_str).chain(ours.lines());
            let described =
                all.map(|line| plain(line, LONGEST_LINE)).filter(|line| !line.is_empty()).take(MOST_LEFT);
            Some(ResetState::Dirty { left: described.chain([folder]).collect() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::encode;

    #[test]
    fn leftovers_are_reported_by_the_agent_and_by_the_driver() {
        let agent = encode(br#"{"clean": false, "left": ["/etc/rancher", "unit k3s.service"]}"#);
        let ours = encode(b"what the agent did\n/etc/a\n");
        let answer = Answer::of(&[("state", "dirty"), ("agent", &agent), ("left", &ours)]);
        let Some(ResetState::Dirty { left }) = read(&answer, "c1") else { panic!("dirty") };
        assert_eq!(left[..4], ["/etc/rancher", "unit k3s.service", "what the agent did", "/etc/a"]);
        assert!(left[4].starts_with("/var/lib/capstan-claims/c1"), "{left:?}");
    }

    #[test]
    fn a_host_that_says_nonsense_is_not_clean() {
        assert_eq!(read(&Answer::of(&[]), "c"), None);
        assert_eq!(read(&Answer::of(&[("state", "sparkling")]), "c"), None);
    }
}
