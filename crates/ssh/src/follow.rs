//! The request to the agent on a host to follow its cluster to another management plane, and its answer. Pure.

use capstan_infrastructure::{FollowState, HandOver};
use serde::Deserialize;

use crate::facts::plain;
use crate::script::{Answer, Script, encode};

/// A reason is cut here.
const LONGEST: usize = 600;

/// What the agent says.
#[derive(Deserialize)]
struct Said {
    follows: bool,
    #[serde(default)]
    refused: String,
}

/// Hands it over. The token in it goes through pipes, and is no argument of anything.
pub(crate) fn script(script: Script, hand_over: &HandOver) -> Script {
    script.set("told", &encode(&hand_over.0)).run(include_str!("sh/follow.sh"))
}

/// What came of it.
pub(crate) fn read(answer: &Answer) -> Option<FollowState> {
    let said: Said = serde_json::from_str(answer.text("said")?.trim()).ok()?;
    Some(match said.follows {
        true => FollowState::Follows,
        false => FollowState::Refused(plain(&said.refused, LONGEST)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_follows_or_says_why_not() {
        let said = |text: &str| read(&Answer::of(&[("said", &encode(text.as_bytes()))]));
        assert_eq!(said("{\"follows\":true}\n"), Some(FollowState::Follows));
        let refused = said(r#"{"follows":false,"refused":"epoch 1\nand 2"}"#);
        assert!(matches!(refused, Some(FollowState::Refused(why)) if why.starts_with("epoch 1")));
        assert_eq!(said("hello"), None);
        assert_eq!(read(&Answer::of(&[])), None);
    }
}
