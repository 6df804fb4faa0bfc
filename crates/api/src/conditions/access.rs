//! Access to the conditions of any object.

use kube::Resource;
use kube::core::ObjectMeta;
use kube::core::object::HasStatus;
use std::borrow::Cow;

use super::{Condition, ConditionStatus};
use crate::meta::labels;

/// An object that has conditions.
///
/// Kinds with `kube`'s derive implement it through [`StatusConditions`] of their status. Wrappers of untyped objects
/// implement the four functions themselves.
pub trait Conditioned {
    /// All conditions, in the order of the object.
    fn conditions(&self) -> &[Condition];

    /// The conditions, mutable. Prefer [`set`](super::set) and [`delete`](super::delete), which follow the rules.
    fn conditions_mut(&mut self) -> &mut Vec<Condition>;

    /// `metadata.generation`, if the object is stored.
    fn generation(&self) -> Option<i64>;

    /// Identity of the object in messages about several objects.
    fn owner(&self) -> Owner<'_>;
}

/// The object that has a condition, as used in messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner<'a> {
    /// Kind, such as `Machine`.
    pub kind: Cow<'a, str>,
    /// Name without the namespace.
    pub name: &'a str,
    /// Whether it is a Machine of the control plane. Messages name these first.
    pub is_control_plane_machine: bool,
}

impl<'a> Owner<'a> {
    /// The owner with this kind and this metadata.
    pub fn new(kind: impl Into<Cow<'a, str>>, meta: &'a ObjectMeta) -> Self {
        let kind = kind.into();
        let has_label = meta.labels.as_ref().is_some_and(|labels| labels.contains_key(labels::CONTROL_PLANE));
        Self {
            is_control_plane_machine: has_label && kind == "Machine",
            name: meta.name.as_deref().unwrap_or_default(),
            kind,
        }
    }
}

/// A status with a list of conditions. [`status_conditions!`](crate::status_conditions) implements it.
pub trait StatusConditions {
    /// The conditions.
    fn conditions(&self) -> &[Condition];
    /// The conditions, mutable.
    fn conditions_mut(&mut self) -> &mut Vec<Condition>;
}

/// Implements [`StatusConditions`](crate::conditions::StatusConditions) for status types with a field
/// `conditions: Vec<Condition>`.
#[macro_export]
macro_rules! status_conditions {
    ($($status:ty),+ $(,)?) => {$(
        impl $crate::conditions::StatusConditions for $status {
            fn conditions(&self) -> &[$crate::conditions::Condition] {
                &self.conditions
            }

            fn conditions_mut(&mut self) -> &mut ::std::vec::Vec<$crate::conditions::Condition> {
                &mut self.conditions
            }
        }
    )+};
}

impl<K> Conditioned for K
where
    K: Resource<DynamicType = ()> + HasStatus,
    K::Status: StatusConditions + Default,
{
    fn conditions(&self) -> &[Condition] {
        self.status().map_or(&[], StatusConditions::conditions)
    }

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        self.status_mut().get_or_insert_default().conditions_mut()
    }

    fn generation(&self) -> Option<i64> {
        self.meta().generation
    }

    fn owner(&self) -> Owner<'_> {
        Owner::new(K::kind(&()), self.meta())
    }
}

/// The condition with this type in a list.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// The condition with this type of an object.
pub fn get<'a, T: Conditioned + ?Sized>(object: &'a T, type_: &str) -> Option<&'a Condition> {
    find(object.conditions(), type_)
}

/// Whether an object has a condition with this type.
pub fn has<T: Conditioned + ?Sized>(object: &T, type_: &str) -> bool {
    get(object, type_).is_some()
}

/// Whether the condition exists and is True.
pub fn is_true<T: Conditioned + ?Sized>(object: &T, type_: &str) -> bool {
    get(object, type_).is_some_and(|condition| condition.status == ConditionStatus::True)
}

/// Whether the condition exists and is False.
pub fn is_false<T: Conditioned + ?Sized>(object: &T, type_: &str) -> bool {
    get(object, type_).is_some_and(|condition| condition.status == ConditionStatus::False)
}

/// Whether the condition is Unknown or missing.
pub fn is_unknown<T: Conditioned + ?Sized>(object: &T, type_: &str) -> bool {
    get(object, type_).is_none_or(|condition| condition.status == ConditionStatus::Unknown)
}
