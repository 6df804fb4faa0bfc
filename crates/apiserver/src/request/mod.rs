//! Parses requests: their target, the form of the response, options and bodies. Does not use the store or the entries of
//! the registry.

pub(crate) mod body;
mod head;
pub(crate) mod info;
pub(crate) mod negotiate;
pub(crate) mod options;

pub(crate) use head::Head;
pub(crate) use info::{Query, RequestInfo, ResourceRequest, Verb};
