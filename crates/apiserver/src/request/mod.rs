//! Parses requests: their target, the form of the response, selectors and bodies. Does not use the store or the
//! registry.

pub(crate) mod body;
mod head;
pub(crate) mod info;
pub(crate) mod negotiate;
pub(crate) mod options;
pub(crate) mod selector;

pub(crate) use head::Head;
pub(crate) use info::{Query, RequestInfo, ResourceRequest, Verb};
