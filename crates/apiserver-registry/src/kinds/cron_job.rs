//! CronJobs. They are only stored: no controller makes Jobs of them.

use serde_json::{Value, json};

use super::{
    super::Rules,
    core::{default_pods, default_to, object_in},
};
use crate::{object, status::Cause};

/// The name of a Job of the CronJob has eleven characters more, and at most 63.
const LONGEST_NAME: usize = 52;
const COUNTS: [&str; 3] = ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"];
const POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];
const DESCRIPTORS: [&str; 7] =
    ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

pub(crate) const CRON_JOB: Rules = Rules {
    default,
    on_create: |job, _| job["status"] = json!({}),
    validate: |job, old| {
        let mut causes = invalid_spec(job.get("spec").unwrap_or(&Value::Null), old);
        if old.is_none() && object::name(job).len() > LONGEST_NAME {
            let detail = "must be no more than 52 characters";
            causes.push(Cause::invalid("metadata.name", &object::name(job).into(), detail));
        }
        causes
    },
    blank: || {
        let pods = json!({"metadata": {}, "spec": {"containers": null}});
        json!({"spec": {"schedule": "", "jobTemplate": {"metadata": {}, "spec": {"template": pods}}}, "status": {}})
    },
    generation: true,
    ..Rules::PLAIN
};

fn default(job: &mut Value) {
    let Some(spec) = object_in(job, "spec") else { return };
    for (field, value) in [
        ("concurrencyPolicy", json!("Allow")),
        ("suspend", json!(false)),
        ("successfulJobsHistoryLimit", json!(3)),
        ("failedJobsHistoryLimit", json!(1)),
    ] {
        default_to(spec, field, value);
    }
    if let Some(pods) = spec.pointer_mut("/jobTemplate/spec/template/spec").filter(|pods| pods.is_object()) {
        default_pods(pods);
    }
}

fn invalid_spec(spec: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let zone = spec.get("timeZone").filter(|zone| !zone.is_null());
    match object::text(spec, &["schedule"]) {
        "" => causes.push(Cause::required("spec.schedule", "")),
        schedule => {
            let had_zone = old.is_some_and(|old| object::text(old, &["spec", "schedule"]).contains("TZ"));
            let details = [invalid_schedule(schedule), misplaced_zone(schedule, had_zone, zone.is_some())];
            let refuse = |detail: String| Cause::invalid("spec.schedule", &schedule.into(), &detail);
            causes.extend(details.into_iter().flatten().map(refuse));
        }
    }
    for field in COUNTS {
        if let Some(number) = spec.get(field).filter(|number| number.as_i64().is_some_and(|it| it < 0)) {
            let detail = "must be greater than or equal to 0";
            causes.push(Cause::invalid(format!("spec.{field}"), number, detail));
        }
    }
    let has_same_zone = old.is_some_and(|old| object::at(old, &["spec", "timeZone"]) == spec.get("timeZone"));
    if let Some(zone) = zone.filter(|_| !has_same_zone) {
        let detail = invalid_zone(zone.as_str().unwrap_or_default());
        causes.extend(detail.map(|detail| Cause::invalid("spec.timeZone", zone, &detail)));
    }
    let policy = spec.get("concurrencyPolicy").unwrap_or(&Value::Null);
    if !policy.as_str().is_some_and(|policy| POLICIES.contains(&policy)) {
        causes.push(Cause::unsupported("spec.concurrencyPolicy", policy, &POLICIES));
    }
    causes.extend(invalid_template(object::at(spec, &["jobTemplate", "spec"]).unwrap_or(&Value::Null)));
    causes
}

fn invalid_template(job: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let at = |field: &str| format!("spec.jobTemplate.spec.{field}");
    let policy = object::text(job, &["template", "spec", "restartPolicy"]);
    if !matches!(policy, "OnFailure" | "Never") {
        let detail = "valid values: \"OnFailure\", \"Never\"";
        causes.push(Cause::required(at("template.spec.restartPolicy"), detail));
    }
    if let Some(selector) = job.get("selector").filter(|selector| !selector.is_null()) {
        causes.push(Cause::invalid(at("selector"), selector, "`selector` will be auto-generated"));
    }
    if job.get("manualSelector") == Some(&Value::Bool(true)) {
        causes.push(Cause::unsupported(at("manualSelector"), &json!(true), &["nil", "false"]));
    }
    causes
}

/// A time zone within a schedule is only kept, beside no other.
fn misplaced_zone(schedule: &str, had_zone: bool, has_field: bool) -> Option<String> {
    match (schedule.contains("TZ"), had_zone) {
        (true, false) => Some("cannot use TZ or CRON_TZ in schedule, use timeZone field instead".to_owned()),
        (true, true) if has_field => {
            Some("cannot use both timeZone field and TZ or CRON_TZ in schedule".to_owned())
        }
        _ => None,
    }
}

/// The syntax only: which time zones exist depends on the machine that runs the Jobs.
fn invalid_zone(zone: &str) -> Option<String> {
    let fits = |part: &str| {
        part != "."
            && part != ".."
            && !part.starts_with('-')
            && !part.is_empty()
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "._+-".contains(c))
    };
    if zone.is_empty() {
        Some("timeZone must be nil or non-empty string".to_owned())
    } else if !zone.split('/').all(fits) {
        Some(format!("unknown time zone {zone}"))
    } else if zone.eq_ignore_ascii_case("Local") {
        let known = "https://www.iana.org/time-zones";
        Some(format!("timeZone must be an explicit time zone as defined in {known}"))
    } else {
        None
    }
}

/// What is wrong with a schedule of five fields or a descriptor.
fn invalid_schedule(schedule: &str) -> Option<String> {
    let schedule = match schedule.split_once(' ') {
        Some((zone, rest)) if zone.starts_with("TZ=") || zone.starts_with("CRON_TZ=") => rest.trim_start(),
        _ => schedule,
    };
    if let Some(duration) = schedule.strip_prefix("@every ") {
        let is_duration = duration.starts_with(|c: char| c.is_ascii_digit())
            && duration.ends_with(|c: char| "hms".contains(c))
            && duration.chars().all(|c| c.is_ascii_digit() || ".hmsnuµ".contains(c));
        return (!is_duration).then(|| format!("not a duration: {duration}"));
    }
    if schedule.starts_with('@') {
        return (!DESCRIPTORS.contains(&schedule)).then(|| format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields[..] else {
        return Some(format!("expected exactly 5 fields, found {}: {schedule:?}", fields.len()));
    };
    let checks = [
        (minute, 0, 59, &[][..]),
        (hour, 0, 23, &[]),
        (day, 1, 31, &[]),
        (month, 1, 12, &MONTHS),
        (weekday, 0, 6, &DAYS),
    ];
    checks.into_iter().find_map(|(field, least, most, names)| {
        field.split(',').find_map(|range| invalid_range(range, least, most, names))
    })
}

/// What is wrong with a part of a field: `*`, a number, a range, each with an optional step.
fn invalid_range(range: &str, least: u32, most: u32, names: &[&str]) -> Option<String> {
    let number = |text: &str| {
        let place = (least..).zip(names).find(|(_, name)| text.eq_ignore_ascii_case(name));
        place.map(|(number, _)| number).or_else(|| text.parse().ok())
    };
    let (span, step) = match range.split_once('/') {
        Some((span, step)) => (span, Some(step)),
        None => (range, None),
    };
    if step.is_some_and(|step| step.parse::<u32>().is_err()) {
        return Some(format!("the step is not a number: {range}"));
    }
    if step.is_some_and(|step| step.parse() == Ok(0_u32)) {
        return Some(format!("step of range should be a positive number: {range}"));
    }
    if matches!(span, "*" | "?") {
        return None;
    }
    let (first, last) = span.split_once('-').unwrap_or((span, span));
    let (Some(first), Some(last)) = (number(first), number(last)) else {
        return Some(format!("not a number: {range}"));
    };
    if first < least {
        return Some(format!("beginning of range ({first}) below minimum ({least}): {range}"));
    }
    if last > most {
        return Some(format!("end of range ({last}) above maximum ({most}): {range}"));
    }
    (first > last).then(|| format!("beginning of range ({first}) beyond end of range ({last}): {range}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_have_five_fields_or_are_descriptors() {
        for good in [
            "* * * * *",
            "*/5 1-3,7 ? jan-MAR mon",
            "0 0 31 12 6",
            "@daily",
            "@every 1h30m",
            "TZ=UTC 0 0 1 1 0",
        ] {
            assert_eq!(invalid_schedule(good), None, "{good}");
        }
        for bad in [
            "",
            "* * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "*/0 * * * *",
            "*/x * * * *",
            "5-3 * * * *",
            "a * * * *",
            "@never",
            "@every day",
        ] {
            assert!(invalid_schedule(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn time_zones_have_a_field_of_their_own() {
        assert_eq!(invalid_zone("Europe/Berlin"), None);
        for bad in ["", "local", "../etc", "-x", "Europe//Berlin", "a b"] {
            assert!(invalid_zone(bad).is_some(), "{bad}");
        }
        let table = [(false, false, true), (true, false, false), (true, true, true)];
        assert!(
            table.map(|(had, field, _)| misplaced_zone("TZ=UTC @daily", had, field).is_some())
                == table.map(|(_, _, wrong)| wrong)
        );
        assert_eq!(misplaced_zone("@daily", false, true), None);
    }

    #[test]
    fn a_cron_job_is_defaulted_and_validated() {
        let pods = json!({"spec": {"restartPolicy": "Never"}});
        let mut job = json!({"metadata": {"name": "c"}, "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": pods}}}});
        default(&mut job);
        assert_eq!((CRON_JOB.validate)(&job, None), []);
        let spec = &job["spec"];
        assert_eq!((&spec["concurrencyPolicy"], &spec["suspend"]), (&json!("Allow"), &json!(false)));
        assert_eq!(spec["jobTemplate"]["spec"]["template"]["spec"]["dnsPolicy"], "ClusterFirst");
        let bad = json!({
            "metadata": {"name": "c".repeat(53)},
            "spec": {
                "startingDeadlineSeconds": -1, "timeZone": "Local", "concurrencyPolicy": "Some",
                "jobTemplate": {"spec": {"selector": {}, "manualSelector": true}},
            },
        });
        let fields: Vec<_> = (CRON_JOB.validate)(&bad, None).into_iter().map(|cause| cause.field).collect();
        assert_eq!(
            fields,
            [
                "spec.schedule",
                "spec.startingDeadlineSeconds",
                "spec.timeZone",
                "spec.concurrencyPolicy",
                "spec.jobTemplate.spec.template.spec.restartPolicy",
                "spec.jobTemplate.spec.selector",
                "spec.jobTemplate.spec.manualSelector",
                "metadata.name",
            ]
        );
    }
}
