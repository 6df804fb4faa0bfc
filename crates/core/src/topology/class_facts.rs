//! What is computed once for each version of a ClusterClass: its compiled variables, and what is wrong with it.

use capstan_api::core::ClusterClass;
use capstan_topology::FieldError;
use capstan_topology::validation;
use capstan_topology::variables::Definitions;
use kube::ResourceExt as _;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// As many classes are remembered. When there are more, all are forgotten.
const MOST: usize = 200;

/// Facts about one version of a class.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) definitions: Definitions,
    pub(super) errors: Vec<FieldError>,
}

/// The facts about all classes, by UID, with the resource version that they are about.
#[derive(Debug, Default)]
pub(super) struct ClassFacts(Mutex<HashMap<String, (String, Arc<Facts>)>>);

impl ClassFacts {
    pub(super) fn of(&self, class: &ClusterClass) -> Arc<Facts> {
        let (uid, version) = (class.uid().unwrap_or_default(), class.resource_version().unwrap_or_default());
        // The content is a cache: a panic elsewhere leaves it usable.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, facts)) = known.get(&uid).filter(|(known, _)| *known == version) {
            return Arc::clone(facts);
        }
        let variables = class.status.as_ref().map(|status| status.variables.as_slice()).unwrap_or_default();
        let facts = Arc::new(Facts {
            definitions: Definitions::compile(variables),
            errors: validation::class(class, None),
        });
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(uid, (version, Arc::clone(&facts)));
        facts
    }
}
