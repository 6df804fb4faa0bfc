//! Images of registries: which servers are asked is decided by [`Registries`], and everything that is downloaded is verified by
//! its digest before it is unpacked.

mod download;
mod refusal;
mod session;

use capstan_agent::image::{DEPTH, ImageReference, LARGEST_MANIFEST, Manifest};
use capstan_agent::machine::MachineError;
use capstan_agent::route::Route;
use capstan_plan::{Digest, MachinePath};
use capstan_sentinel::apply::{self, Pulled};
use capstan_sentinel::config::Config;
use capstan_sentinel::registries::{Endpoint, Registries};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::backoff::Backoff;
use crate::paths::Paths;
use crate::{files, say};
use refusal::Refusal;
use session::Session;

/// The file if none is configured, and those that are read if that one does not exist.
const FILES: [&str; 3] = [
    "/etc/rancher/agent/registries.yaml",
    "/etc/rancher/rke2/registries.yaml",
    "/etc/rancher/k3s/registries.yaml",
];

/// How often all servers are asked, while one of them may answer later.
const ROUNDS: usize = 4;

/// Largest size of the layers of an image, compressed.
const LARGEST_IMAGE: u64 = 16 * 1024 * 1024 * 1024;

/// Types of descriptions of images.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
                         application/vnd.docker.distribution.manifest.list.v2+json, \
                         application/vnd.docker.distribution.manifest.v2+json";

/// Types of layers.
const LAYERS: &str = "application/octet-stream, */*";

/// The registries of this machine.
pub(super) struct Registry {
    paths: Paths,
    /// The configured file, and those in its place.
    files: Vec<String>,
    /// Folder for downloads.
    folder: MachinePath,
    /// How servers are reached.
    route: Route,
    /// Whether the configuration names programs that give credentials. As in upstream, they are never asked.
    names_providers: bool,
}

/// A layer that is downloaded.
#[derive(Clone, Copy)]
struct Layer {
    digest: Digest,
    size: u64,
}

impl Registry {
    /// What an earlier process has downloaded into the folder is removed.
    pub(super) fn new(paths: &Paths, config: &Config, folder: MachinePath, route: Route) -> Self {
        let file = &config.agent_registries_file;
        let first = if file.is_empty() { FILES[0] } else { file };
        let files = [first, FILES[1], FILES[2]].map(str::to_owned).into();
        let names_providers = !config.image_credential_provider_config.is_empty();
        let registry = Self { paths: paths.clone(), files, folder, route, names_providers };
        registry.clear();
        registry
    }

    fn place(&self) -> PathBuf {
        self.paths.below(self.folder.as_str())
    }

    fn clear(&self) {
        let place = self.place();
        if let Err(error) = files::remove_folder(&place) {
            say!("cannot remove {}: {error}", place.display());
        }
    }

    /// The file that exists, and its content.
    fn read(&self) -> Result<(String, Registries), Refusal> {
        for name in &self.files {
            let path = self.paths.below(name);
            if !path.exists() {
                continue;
            }
            let bytes =
                super::trusted(&path).map_err(|error| Refusal::lasting(format!("{name}: {error}")))?;
            let text =
                String::from_utf8(bytes).map_err(|_| Refusal::lasting(format!("{name} is not text")))?;
            let read =
                Registries::parse(&text).map_err(|error| Refusal::lasting(format!("{name}: {error}")))?;
            return Ok((name.clone(), read));
        }
        Ok((self.files[0].clone(), Registries::default()))
    }

    async fn try_to_pull(&self, image: &ImageReference) -> Result<Vec<Digest>, MachineError> {
        let (file, registries) = self.read().map_err(Refusal::into_error)?;
        let mut backoff = Backoff::new(Duration::from_secs(4), Duration::from_secs(60));
        let mut round = 1;
        loop {
            let mut refusals = Vec::new();
            for endpoint in registries.endpoints(image) {
                let refusal = match endpoint {
                    Err(error) => Refusal::lasting(format!("{file}: {error}")),
                    Ok(endpoint) => {
                        let mut session = Session::new(self, &file, &registries, &endpoint);
                        match self.pull_from(&mut session, &endpoint, image).await {
                            Ok(layers) => return Ok(layers),
                            Err(refusal) => refusal.of(endpoint.authority()),
                        }
                    }
                };
                if refusal.is_full() {
                    return Err(refusal.into_error());
                }
                refusals.push(refusal);
            }
            let error = Refusal::all(refusals);
            if round == ROUNDS || !error.is_passing() {
                return Err(error.into_error());
            }
            round += 1;
            tokio::time::sleep(backoff.next()).await;
        }
    }

    async fn pull_from(
        &self,
        session: &mut Session<'_>,
        endpoint: &Endpoint,
        image: &ImageReference,
    ) -> Result<Vec<Digest>, Refusal> {
        let (found, layers) = describe(session, endpoint, image).await?;
        let total = layers.iter().try_fold(0_u64, |total, layer| total.checked_add(layer.size));
        if total.is_none_or(|total| total > LARGEST_IMAGE) {
            return Err(Refusal::lasting(format!("its layers have more than {LARGEST_IMAGE} bytes")));
        }
        let place = self.place();
        for layer in &layers {
            self.fetch(session, endpoint, *layer, &place).await?;
        }
        say!("pulled the image {image} (sha256:{found}) from {}", endpoint.authority());
        Ok(layers.iter().map(|layer| layer.digest).collect())
    }

    async fn fetch(
        &self,
        session: &mut Session<'_>,
        endpoint: &Endpoint,
        layer: Layer,
        place: &Path,
    ) -> Result<(), Refusal> {
        let path = place.join(layer.digest.to_string());
        // Of another server, or the same layer twice.
        if path.exists() {
            return Ok(());
        }
        let url = endpoint.blob(layer.digest).ok_or_else(|| Refusal::lasting("its address is too long"))?;
        let answer = session.get(&url, LAYERS).await?;
        download::to_file(answer, &path, layer).await
    }
}

/// The digest of an image, and its layers for this machine.
async fn describe(
    session: &mut Session<'_>,
    endpoint: &Endpoint,
    image: &ImageReference,
) -> Result<(Digest, Vec<Layer>), Refusal> {
    let (mut version, mut wanted, mut first) = (image.version(), image.digest(), None);
    for _ in 0..DEPTH {
        let url = endpoint.manifest(&version).ok_or_else(|| Refusal::lasting("its address is too long"))?;
        let answer = session.get(&url, MANIFESTS).await?;
        let bytes = download::to_memory(answer, LARGEST_MANIFEST).await?;
        let found = Digest::of(&bytes);
        if wanted.is_some_and(|wanted| wanted != found) {
            return Err(Refusal::lasting(format!("the description of the image has the digest {found}")));
        }
        let first = *first.get_or_insert(found);
        match Manifest::parse(&bytes).map_err(Refusal::lasting)? {
            Manifest::List(list) => {
                let next = Manifest::for_this_machine(list).and_then(|next| next.digest());
                let next = next.map_err(Refusal::lasting)?;
                (version, wanted) = (format!("sha256:{next}"), Some(next));
            }
            Manifest::Image(layers) => {
                let layers = layers.iter().map(|layer| match layer.size {
                    0 => Err(Refusal::lasting("a layer has no size")),
                    size => Ok(Layer { digest: layer.digest().map_err(Refusal::lasting)?, size }),
                });
                return Ok((first, layers.collect::<Result<_, _>>()?));
            }
        }
    }
    Err(Refusal::lasting("lists of images are nested too deep"))
}

impl apply::Registry for Registry {
    async fn pull(&self, image: &ImageReference) -> Result<Pulled, MachineError> {
        self.clear();
        let place = self.place();
        download::make_folder(&place)
            .map_err(|error| MachineError::io(format!("make {}", place.display()), error))?;
        Ok(Pulled { folder: self.folder.clone(), layers: self.try_to_pull(image).await? })
    }

    async fn forget(&self) {
        self.clear();
    }
}
