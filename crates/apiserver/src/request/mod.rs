//! Reading requests: what they are about, which form of answer they ask for, what their selectors and
//! bodies say. Nothing in here touches the store or the registry.

pub(crate) mod body;
mod head;
pub(crate) mod info;
pub(crate) mod negotiate;
pub(crate) mod options;
pub(crate) mod selector;

pub(crate) use head::Head;
pub(crate) use info::{Query, RequestInfo, ResourceRequest, Verb};
