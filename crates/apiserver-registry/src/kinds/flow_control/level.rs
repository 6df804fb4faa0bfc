//! The rules of PriorityLevelConfigurations.

use serde_json::Value;

use super::{EXEMPT, default_number, mandatory_levels};
use crate::{kinds::core::default_to, object, status::Cause};

const MOST_QUEUES: i64 = 10_000_000;
/// Bits of the hash by which upstream deals queues to flows.
const HASH_BITS: f64 = 60.0;

pub(super) fn default_level(level: &mut Value) {
    for (part, shares) in [("exempt", 0), ("limited", 30)] {
        let part = level.get_mut("spec").and_then(|spec| spec.get_mut(part)).filter(|part| part.is_object());
        if let Some(part) = part {
            default_to(part, "nominalConcurrencyShares", shares.into());
            default_to(part, "lendablePercent", 0.into());
        }
    }
    let queuing = level.pointer_mut("/spec/limited/limitResponse/queuing").filter(|it| it.is_object());
    if let Some(queuing) = queuing {
        for (field, default) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
            default_number(queuing, field, default);
        }
    }
}

pub(super) fn invalid_level(name: &str, spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let kind = spec.get("type").unwrap_or(&Value::Null);
    if (name == EXEMPT) != (kind == "Exempt") {
        causes.push(Cause::invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'"));
    }
    let part = |field: &str| spec.get(field).filter(|part| !part.is_null());
    match (kind.as_str().unwrap_or_default(), part("exempt"), part("limited")) {
        ("Exempt", exempt, limited) => {
            let detail = "must be nil if the type is not Limited";
            causes.extend(limited.map(|_| Cause::forbidden("spec.limited", detail)));
            causes.extend(exempt.into_iter().flat_map(|exempt| invalid_shares(exempt, "spec.exempt")));
        }
        ("Limited", exempt, limited) => {
            let detail = "must be nil if the type is Limited";
            causes.extend(exempt.map(|_| Cause::forbidden("spec.exempt", detail)));
            match limited {
                Some(limited) => causes.extend(invalid_limited(limited)),
                None => {
                    let detail = "must not be empty when type is Limited";
                    causes.push(Cause::required("spec.limited", detail));
                }
            }
        }
        ("", ..) => causes.push(Cause::required("spec.type", "")),
        _ => causes.push(Cause::unsupported("spec.type", kind, &["Exempt", "Limited"])),
    }
    causes
}

/// The mandatory levels stay as they are, but for the shares of the exempt one.
pub(super) fn changed_level(name: &str, spec: &Value) -> Option<Cause> {
    let (_, fixed) = mandatory_levels().into_iter().find(|(mandatory, _)| *mandatory == name)?;
    if name != EXEMPT {
        let detail = format!("spec of '{name}' must equal the fixed value");
        return (fixed != *spec).then(|| Cause::invalid("spec", spec, &detail));
    }
    let is_changed =
        spec.get("type") != fixed.get("type") || spec.get("limited").is_some_and(|it| !it.is_null());
    let detail = "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value";
    is_changed.then(|| Cause::invalid("spec", spec, detail))
}

fn number(value: &Value, field: &str) -> Option<i64> {
    value.get(field).and_then(Value::as_i64)
}

fn invalid_shares(part: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let field = "nominalConcurrencyShares";
    if let Some(shares) = number(part, field).filter(|shares| *shares < 0) {
        causes.push(Cause::invalid(
            format!("{at}.{field}"),
            &shares.into(),
            "must be a non-negative integer",
        ));
    }
    if let Some(percent) = number(part, "lendablePercent").filter(|percent| !(0..=100).contains(percent)) {
        let detail = "must be between 0 and 100, inclusive";
        causes.push(Cause::invalid(format!("{at}.lendablePercent"), &percent.into(), detail));
    }
    causes
}

fn invalid_limited(limited: &Value) -> Vec<Cause> {
    let at = "spec.limited.limitResponse";
    let mut causes = invalid_shares(limited, "spec.limited");
    let response = limited.get("limitResponse").unwrap_or(&Value::Null);
    let queuing = response.get("queuing").filter(|queuing| !queuing.is_null());
    match (object::text(response, &["type"]), queuing) {
        ("Reject", Some(_)) => {
            let detail = "must be nil if limited.limitResponse.type is not Limited";
            causes.push(Cause::forbidden(format!("{at}.queuing"), detail));
        }
        ("Reject", None) => {}
        ("Queue", Some(queuing)) => causes.extend(invalid_queues(queuing, &format!("{at}.queuing"))),
        ("Queue", None) => {
            let detail = "must not be empty if limited.limitResponse.type is Limited";
            causes.push(Cause::required(format!("{at}.queuing"), detail));
        }
        ("", _) => causes.push(Cause::required(format!("{at}.type"), "")),
        (kind, _) => {
            causes.push(Cause::unsupported(format!("{at}.type"), &kind.into(), &["Queue", "Reject"]));
        }
    }
    if let Some(percent) = number(limited, "borrowingLimitPercent").filter(|percent| *percent < 0) {
        let detail = "if specified, must be a non-negative integer";
        causes.push(Cause::invalid("spec.limited.borrowingLimitPercent", &percent.into(), detail));
    }
    causes
}

fn invalid_queues(queuing: &Value, at: &str) -> Vec<Cause> {
    let of = |field: &str| number(queuing, field).unwrap_or(0);
    let refuse =
        |field: &str, detail: &str| Cause::invalid(format!("{at}.{field}"), &of(field).into(), detail);
    let mut causes = Vec::new();
    if of("queueLengthLimit") <= 0 {
        causes.push(refuse("queueLengthLimit", "must be positive"));
    }
    let (queues, hand) = (of("queues"), of("handSize"));
    if queues <= 0 {
        causes.push(refuse("queues", "must be positive"));
    } else if queues > MOST_QUEUES {
        causes.push(refuse("queues", &format!("must not be greater than {MOST_QUEUES}")));
    }
    if hand <= 0 {
        causes.push(refuse("handSize", "must be positive"));
    } else if hand > queues {
        causes.push(refuse("handSize", &format!("should not be greater than queues ({queues})")));
    } else {
        let bits = entropy_bits(queues, hand);
        if bits > HASH_BITS {
            let detail = format!(
                "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than 60"
            );
            causes.push(refuse("handSize", &detail));
        }
    }
    causes
}

/// How many bits choose a hand of queues, rounded up. A hand of more than 60 queues needs more than 60 bits.
fn entropy_bits(queues: i64, hand: i64) -> f64 {
    let drawn = (0..hand.min(61)).filter_map(|place| u32::try_from(queues - place).ok());
    drawn.map(|left| f64::from(left).log2()).sum::<f64>().ceil()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::PRIORITY_LEVEL, *};

    fn fields(causes: &[Cause]) -> Vec<&str> {
        causes.iter().map(|cause| cause.field.as_str()).collect()
    }

    #[test]
    fn levels_are_defaulted_and_validated() {
        let mut level = json!({"metadata": {"name": "p"}, "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}});
        (PRIORITY_LEVEL.default)(&mut level);
        let queuing = json!({"handSize": 8, "queues": 64, "queueLengthLimit": 50});
        assert_eq!(level["spec"]["limited"]["limitResponse"]["queuing"], queuing);
        assert_eq!(level["spec"]["limited"]["nominalConcurrencyShares"], 30);
        assert_eq!((PRIORITY_LEVEL.validate)(&level, None), []);
        for (spec, expected) in [
            (json!({}), &["spec.type"][..]),
            (json!({"type": "Limited"}), &["spec.limited"]),
            (
                json!({"type": "Limited", "limited": {"limitResponse": {}}}),
                &["spec.limited.limitResponse.type"],
            ),
            (
                json!({"type": "Limited", "limited": {"lendablePercent": 101, "limitResponse": {"type": "Reject", "queuing": {}}}}),
                &["spec.limited.lendablePercent", "spec.limited.limitResponse.queuing"],
            ),
            (
                json!({"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {"queues": 2, "handSize": 3, "queueLengthLimit": 1}}}}),
                &["spec.limited.limitResponse.queuing.handSize"],
            ),
        ] {
            assert_eq!(fields(&invalid_level("p", &spec)), expected, "{spec}");
        }
        assert!(entropy_bits(128, 6) <= HASH_BITS && entropy_bits(1000, 9) > HASH_BITS);
    }
}
