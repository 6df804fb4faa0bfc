//! Names and descriptions of container images. Pure.

mod manifest;
mod reference;

pub use manifest::{DEPTH, Descriptor, LARGEST_MANIFEST, Manifest, ManifestError};
pub use reference::ImageReference;
