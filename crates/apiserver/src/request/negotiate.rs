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
    Table,
    /// Metadata only, of an object or of a list's items.
    Metadata,
    /// Aggregated discovery, v2.
    Discovery,
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
        let form = match (self.kind, self.version) {
            ("", _) => Form::Object,
            ("Table", "v1") => Form::Table,
            ("PartialObjectMetadata" | "PartialObjectMetadataList", "v1") => Form::Metadata,
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
        Output::negotiate(&headers, &[Form::Object, Form::Table, Form::Metadata]).ok()
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
                json(Form::Table),
            ),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
                json(Form::Metadata),
            ),
            (
                "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io,application/json",
                json(Form::Object),
            ),
            (
                "application/json;q=0.5,application/yaml",
                Some(Output { form: Form::Object, format: Format::Yaml }),
            ),
            ("application/vnd.kubernetes.protobuf", None),
            ("application/json;as=Nonsense;v=v1", None),
        ];
        for (accept, expected) in cases {
            assert_eq!(negotiate(accept), expected, "{accept}");
        }
    }
}
