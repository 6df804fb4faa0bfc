//! ClusterClasses: the rules of `capstan_topology`, for the Clusters that use a class.

use crate::facts::{Fact, Facts, Key, Needs};
use crate::{Operation, Rejection, Write, object, read};
use capstan_api::core::{Cluster, ClusterClass};
use capstan_topology::validation::{self, ClassChange};
use capstan_topology::{FieldError, field};
use serde_json::Value;

/// As many Clusters are named in a message.
const MOST_NAMES: usize = 3;

pub(crate) fn needs(write: &Write<'_>) -> Needs {
    let of = |class: &Value| Key {
        namespace: object::text(class, &["metadata", "namespace"]).to_owned(),
        name: object::text(class, &["metadata", "name"]).to_owned(),
    };
    let old = write.old.filter(|_| write.operation != Operation::Create);
    Needs { clusters_of: old.map(of), ..Needs::default() }
}

pub(crate) fn validate(
    new: &Value,
    old: Option<&Value>,
    facts: &Facts,
) -> Result<Vec<FieldError>, Rejection> {
    let class: ClusterClass = read(new)?;
    let Some(old) = old else { return Ok(validation::class(&class, None)) };
    let old: ClusterClass = read(old)?;
    let clusters = match &facts.clusters {
        Fact::Known(clusters) => clusters.iter().map(read).collect::<Result<Vec<Cluster>, _>>()?,
        Fact::Absent => Vec::new(),
        Fact::Unknown(why) => {
            let mut errors = validation::class(&class, None);
            errors.push(field::internal(
                "<nil>",
                format!("cannot read the Clusters that use the ClusterClass: {why}"),
            ));
            return Ok(errors);
        }
    };
    Ok(validation::class(&class, Some(ClassChange { old: &old, clusters: &clusters })))
}

/// Checks a deletion.
pub(crate) fn delete(class: &Value, facts: &Facts) -> Result<(), Rejection> {
    let clusters = match &facts.clusters {
        Fact::Known(clusters) => clusters.as_slice(),
        Fact::Absent => return Ok(()),
        Fact::Unknown(why) => {
            let why = format!("cannot read the Clusters that use the ClusterClass: {why}");
            return Err(Rejection::Unknown(why));
        }
    };
    if clusters.is_empty() {
        return Ok(());
    }
    let name = |cluster: &Value| {
        let text = |field| object::text(cluster, &["metadata", field]);
        format!("{}/{}", text("namespace"), text("name"))
    };
    let mut names: Vec<String> = clusters.iter().take(MOST_NAMES).map(name).collect();
    if clusters.len() > MOST_NAMES {
        names.push(format!("and {} more", clusters.len() - MOST_NAMES));
    }
    let class = object::text(class, &["metadata", "name"]);
    Err(Rejection::Forbidden(format!("ClusterClass {class:?} is used by Clusters: {}", names.join(", "))))
}
