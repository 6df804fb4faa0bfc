//! Which form of answer a client asks for. JSON is always possible, YAML on demand, protobuf never.

use http::{HeaderMap, header::ACCEPT};

use crate::status::{ApiError, Result};

const OFFERED: &str = "application/json, application/yaml";

/// What to make of an object before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The object or list itself.
    Object,
    /// A table of columns.
    Table(MetaVersion),
    /// Metadata only, of an object or of a list's items.
    Metadata(MetaVersion),
    /// Aggregated discovery, v2.
    Discovery,
}

/// The version of `meta.k8s.io` in which tables and metadata are sent. They differ in their name only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    V1,
    V1Beta1,
}

impl MetaVersion {
    /// The `apiVersion`.
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// How to write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
}

/// The negotiated answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) form: Form,
    pub(crate) format: Format,
}

impl Output {
    /// What most clients want.
    pub(crate) const JSON: Self = Self { form: Form::Object, format: Format::Json };

    /// What an object or a list can be sent as.
    pub(crate) const FORMS: &[Form] = &[
        Form::Object,
        Form::Table(MetaVersion::V1),
        Form::Table(MetaVersion::V1Beta1),
        Form::Metadata(MetaVersion::V1),
        Form::Metadata(MetaVersion::V1Beta1),
    ];

    /// Picks the first offer we can meet; `forms` are those that make sense for the request.
    pub(crate) fn negotiate(headers: &HeaderMap, forms: &[Form]) -> Result<Self> {
        let mut wanted: Vec<Wanted<'_>> = headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(Wanted::parse)
            .collect();
        if wanted.is_empty() {
            return Ok(Self::JSON);
        }
        wanted.sort_by(|a, b| b.quality.total_cmp(&a.quality));
        let offer = wanted.iter().find_map(|wanted| wanted.offer(forms));
        offer.ok_or_else(|| ApiError::not_acceptable(OFFERED))
    }
}

struct Wanted<'a> {
    media: &'a str,
    kind: &'a str,
    version: &'a str,
    quality: f32,
}

impl<'a> Wanted<'a> {
    fn parse(clause: &'a str) -> Option<Self> {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().filter(|media| !media.is_empty())?;
        let mut wanted = Self { media, kind: "", version: "", quality: 1.0 };
        for part in parts {
            match part.split_once('=') {
                Some(("as", kind)) => wanted.kind = kind,
                Some(("v", version)) => wanted.version = version,
                Some(("q", quality)) => wanted.quality = quality.parse().unwrap_or(1.0),
                _ => {}
            }
        }
        Some(wanted)
    }

    fn offer(&self, forms: &[Form]) -> Option<Output> {
        let format = match self.media {
            "application/json" | "application/*" | "*/*" => Format::Json,
            "application/yaml" => Format::Yaml,
            _ => return None,
        };
        let meta = match self.version {
            "v1" => Some(MetaVersion::V1),
            "v1beta1" => Some(MetaVersion::V1Beta1),
            _ => None,
        };
        let form = match (self.kind, self.version) {
            ("", _) => Form::Object,
            ("Table", _) => Form::Table(meta?),
            ("PartialObjectMetadata" | "PartialObjectMetadataList", _) => Form::Metadata(meta?),
            ("APIGroupDiscoveryList", "v2") => Form::Discovery,
            _ => return None,
        };
        forms.contains(&form).then_some(Output { form, format })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negotiate(accept: &str) -> Option<Output> {
        let mut headers = HeaderMap::new();
        if !accept.is_empty() {
            headers.insert(ACCEPT, accept.parse().unwrap());
        }
        Output::negotiate(&headers, Output::FORMS).ok()
    }

    #[test]
    fn the_first_possible_form_wins() {
        let json = |form| Some(Output { form, format: Format::Json });
        let cases = [
            ("", json(Form::Object)),
            ("*/*", json(Form::Object)),
            ("application/vnd.kubernetes.protobuf, */*", json(Form::Object)),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                json(Form::Table(MetaVersion::V1)),
            ),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
                json(Form::Metadata(MetaVersion::V1)),
            ),
            (
                "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io,application/json",
                json(Form::Object),
            ),
            (
                "application/json;q=0.5,application/yaml",
                Some(Output { form: Form::Object, format: Format::Yaml }),
            ),
            ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", json(Form::Table(MetaVersion::V1Beta1))),
            ("application/json;as=Table;v=v1beta2;g=meta.k8s.io", None),
            ("application/vnd.kubernetes.protobuf", None),
            ("application/json;as=Nonsense;v=v1", None),
        ];
        for (accept, expected) in cases {
            assert_eq!(negotiate(accept), expected, "{accept}");
        }
    }
}
