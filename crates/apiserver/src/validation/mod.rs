//! From the body of a request to an object that is fit for its resource: pruned, defaulted and valid.

pub(crate) mod admit;
pub(crate) mod metadata;
pub(crate) mod scale;
