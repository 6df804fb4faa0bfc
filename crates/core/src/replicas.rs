//! The number of Machines of a MachineDeployment or MachineSet that says none: an autoscaler may be about to set it. Pure.

use capstan_api::meta::annotations::{AUTOSCALER_MAX_SIZE, AUTOSCALER_MIN_SIZE};
use std::collections::BTreeMap;

/// An annotation that is no number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("metadata.annotations[{annotation}] is not a number of machines: {value:?}")]
pub(crate) struct NotANumber {
    annotation: &'static str,
    value: String,
}

/// The number of an object with these annotations that says none.
///
/// `before` is the number that it had, as far as is known. With both annotations of the autoscaler it is kept within their limits, because an
/// autoscaler takes over only there. Without them it is kept, too: a field that is left out must not delete Machines.
pub(crate) fn unsaid(annotations: &BTreeMap<String, String>, before: Option<i32>) -> Result<i32, NotANumber> {
    let (Some(least), Some(most)) =
        (annotations.get(AUTOSCALER_MIN_SIZE), annotations.get(AUTOSCALER_MAX_SIZE))
    else {
        return Ok(before.unwrap_or(1));
    };
    let (least, most) = (limit(AUTOSCALER_MIN_SIZE, least)?, limit(AUTOSCALER_MAX_SIZE, most)?);
    Ok(match before {
        Some(before) if before >= least => before.min(most),
        _ => least,
    })
}

fn limit(annotation: &'static str, value: &str) -> Result<i32, NotANumber> {
    match value.parse() {
        Ok(number) if number >= 0 => Ok(number),
        _ => Err(NotANumber { annotation, value: value.chars().take(64).collect() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(least: Option<&str>, most: Option<&str>) -> BTreeMap<String, String> {
        let pairs = [(AUTOSCALER_MIN_SIZE, least), (AUTOSCALER_MAX_SIZE, most)];
        pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned()))).collect()
    }

    #[test]
    fn a_number_that_is_not_said_stays_within_the_limits_of_the_autoscaler() {
        for (least, most, before, expected) in [
            (None, None, None, 1),
            (None, None, Some(5), 5),
            (None, None, Some(0), 0),
            (Some("3"), None, Some(1), 1),
            (None, Some("3"), Some(5), 5),
            // One alone is not for an autoscaler, so it need not be a number.
            (Some("many"), None, Some(5), 5),
            (None, Some("many"), None, 1),
            (Some("2"), Some("4"), None, 2),
            (Some("2"), Some("4"), Some(1), 2),
            (Some("2"), Some("4"), Some(3), 3),
            (Some("2"), Some("4"), Some(9), 4),
            (Some("0"), Some("4"), Some(0), 0),
        ] {
            let number = unsaid(&annotations(least, most), before);
            assert_eq!(number, Ok(expected), "{least:?} {most:?} {before:?}");
        }
    }

    #[test]
    fn a_limit_that_is_no_number_is_named() {
        for value in ["many", "-1", "", "99999999999"] {
            let error =
                unsaid(&annotations(Some(value), Some("4")), Some(3)).expect_err("an error").to_string();
            assert_eq!(
                error,
                format!("metadata.annotations[{AUTOSCALER_MIN_SIZE}] is not a number of machines: {value:?}")
            );
        }
    }
}
