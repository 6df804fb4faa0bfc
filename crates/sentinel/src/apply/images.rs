//! Images of instructions: from an archive on the machine, or else from a registry.

use capstan_agent::Machine;
use capstan_agent::image::ImageReference;
use capstan_agent::machine::MachineError;
use capstan_plan::{Digest, MachinePath};
use std::future::Future;

use super::commands::Failed;
use super::{Applier, Settings};

/// A source of images that no archive on the machine contains.
pub trait Registry: Send + Sync {
    /// Downloads the layers of an image.
    fn pull(&self, image: &ImageReference) -> impl Future<Output = Result<Pulled, MachineError>> + Send;

    /// Removes what was downloaded.
    fn forget(&self) -> impl Future<Output = ()> + Send;
}

/// Layers of an image on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// Folder with a file for each layer, named by its digest.
    pub folder: MachinePath,
    /// The layers, the lowest first.
    pub layers: Vec<Digest>,
}

impl<M: Machine, R: Registry> Applier<M, R> {
    /// Unpacks an image into an existing folder.
    pub(super) async fn unpack_image(&self, name: &str, into: &MachinePath) -> Result<(), Failed> {
        let Some(image) = ImageReference::parse(name) else {
            return Err(Failed::Plan("image: it is not the name of an image".to_owned()));
        };
        let Settings { images, owner, .. } = &self.settings;
        let failed = |error: MachineError| match error.is_full() {
            true => Failed::Machine(error),
            false => Failed::Plan(format!("image: {error}")),
        };
        if self.machine.unpack_image(&image, images, into, *owner).await.map_err(failed)? {
            return Ok(());
        }
        let unpacked = match self.registry.pull(&image).await {
            Ok(Pulled { folder, layers }) => {
                self.machine.unpack_layers(&layers, &folder, into, *owner).await.map_err(failed)
            }
            Err(error) if error.is_full() => Err(Failed::Machine(error)),
            Err(error) => {
                Err(Failed::Plan(format!("image: no archive in {images} contains {image}, and {error}")))
            }
        };
        // Also what is damaged: the next attempt downloads it again.
        self.registry.forget().await;
        unpacked
    }
}
