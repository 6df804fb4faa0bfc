//! Which form of response a client accepts. JSON is always possible, and metadata and errors as protobuf; objects as
//! protobuf if their kind is built in.

use http::{HeaderMap, header::ACCEPT};

use crate::status::{ApiError, Result};

const OFFERED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const OFFERED_STREAMS: &str =
    "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

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
    Protobuf,
}

/// What an endpoint can send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) forms: &'static [Form],
    /// Whether objects have a protobuf form. Their metadata always has one.
    pub(crate) protobuf: bool,
}

impl Offer {
    /// Of objects and lists.
    pub(crate) fn objects(protobuf: bool) -> Self {
        let forms = &[
            Form::Object,
            Form::Table(MetaVersion::V1),
            Form::Table(MetaVersion::V1Beta1),
            Form::Metadata(MetaVersion::V1),
            Form::Metadata(MetaVersion::V1Beta1),
        ];
        Self { forms, protobuf }
    }

    /// Of one form only, in every format.
    pub(crate) const PLAIN: Self = Self { forms: &[Form::Object], protobuf: true };

    fn has(&self, form: Form, format: Format) -> bool {
        let is_possible = match (form, format) {
            (Form::Table(_), Format::Protobuf) => false,
            (Form::Object, Format::Protobuf) => self.protobuf,
            _ => true,
        };
        is_possible && self.forms.contains(&form)
    }
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

    /// Picks the first of the formats that the client accepts and the endpoint offers.
    pub(crate) fn negotiate(headers: &HeaderMap, offer: Offer) -> Result<Self> {
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
        let picked = wanted.iter().find_map(|wanted| wanted.pick(offer));
        picked.ok_or_else(|| ApiError::not_acceptable(OFFERED))
    }

    /// The same for a stream of watch events.
    pub(crate) fn negotiate_stream(headers: &HeaderMap, offer: Offer) -> Result<Self> {
        let output = Self::negotiate(headers, offer).ok().filter(|output| output.format != Format::Yaml);
        output.ok_or_else(|| ApiError::not_acceptable(OFFERED_STREAMS))
    }
}

impl Format {
    /// The format of an error: a client that accepts none that is possible gets JSON.
    pub(crate) fn of_errors(headers: &HeaderMap) -> Self {
        Output::negotiate(headers, Offer::PLAIN).map_or(Self::Json, |output| output.format)
    }
}

struct Wanted<'a> {
    media: &'a str,
    kind: &'a str,
    version: &'a str,
    stream: &'a str,
    quality: f32,
}

impl<'a> Wanted<'a> {
    fn parse(clause: &'a str) -> Option<Self> {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().filter(|media| !media.is_empty())?;
        let mut wanted = Self { media, kind: "", version: "", stream: "", quality: 1.0 };
        for part in parts {
            match part.split_once('=') {
                Some(("as", kind)) => wanted.kind = kind,
                Some(("v", version)) => wanted.version = version,
                Some(("stream", stream)) => wanted.stream = stream,
                Some(("q", quality)) => wanted.quality = quality.parse().unwrap_or(1.0),
                _ => {}
            }
        }
        Some(wanted)
    }

    fn pick(&self, offer: Offer) -> Option<Output> {
        let format = match self.media {
            "application/json" | "application/*" | "*/*" => Format::Json,
            // Not as a stream.
            "application/yaml" if self.stream.is_empty() => Format::Yaml,
            "application/vnd.kubernetes.protobuf" => Format::Protobuf,
            _ => return None,
        };
        if !matches!(self.stream, "" | "watch") {
            return None;
        }
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
        offer.has(form, format).then_some(Output { form, format })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(accept: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !accept.is_empty() {
            headers.insert(ACCEPT, accept.parse().unwrap());
        }
        headers
    }

    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    const METADATA: Form = Form::Metadata(MetaVersion::V1);

    #[test]
    fn the_first_possible_form_wins() {
        let (json, protobuf) = (|form| Some((form, Format::Json)), |form| Some((form, Format::Protobuf)));
        let metadata = format!(
            "{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        );
        // What a client accepts, what it gets of built-in kinds, and what of custom ones.
        let cases = [
            ("", json(Form::Object), json(Form::Object)),
            ("*/*", json(Form::Object), json(Form::Object)),
            ("application/vnd.kubernetes.protobuf, */*", protobuf(Form::Object), json(Form::Object)),
            ("application/json, application/vnd.kubernetes.protobuf", json(Form::Object), json(Form::Object)),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                json(Form::Table(MetaVersion::V1)),
                json(Form::Table(MetaVersion::V1)),
            ),
            (
                "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json",
                json(Form::Object),
                json(Form::Object),
            ),
            (&metadata, protobuf(METADATA), protobuf(METADATA)),
            (
                "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io,application/json",
                json(Form::Object),
                json(Form::Object),
            ),
            (
                "application/json;q=0.5,application/yaml",
                Some((Form::Object, Format::Yaml)),
                Some((Form::Object, Format::Yaml)),
            ),
            (
                "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
                json(Form::Table(MetaVersion::V1Beta1)),
                json(Form::Table(MetaVersion::V1Beta1)),
            ),
            ("application/json;as=Table;v=v1beta2;g=meta.k8s.io", None, None),
            (PROTOBUF, protobuf(Form::Object), None),
            ("application/json;as=Nonsense;v=v1", None, None),
            ("application/json;stream=nonsense", None, None),
        ];
        for (accept, built_in, custom) in cases {
            let picked = |protobuf| {
                let output = Output::negotiate(&headers(accept), Offer::objects(protobuf)).ok()?;
                Some((output.form, output.format))
            };
            assert_eq!((picked(true), picked(false)), (built_in, custom), "{accept}");
        }
    }

    #[test]
    fn streams_are_not_yaml() {
        let picked = |accept| {
            Output::negotiate_stream(&headers(accept), Offer::objects(true)).map(|output| output.format).ok()
        };
        assert_eq!(picked("application/vnd.kubernetes.protobuf;stream=watch"), Some(Format::Protobuf));
        assert_eq!(picked("application/yaml"), None);
        assert_eq!(picked("application/yaml;stream=watch,application/json;stream=watch"), Some(Format::Json));
    }

    #[test]
    fn errors_always_have_a_format() {
        let format = |accept: &str| Format::of_errors(&headers(accept));
        assert_eq!(format(PROTOBUF), Format::Protobuf);
        assert_eq!(format("text/html"), Format::Json);
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        assert_eq!(format(table), Format::Json);
        let both = format!("{table},{PROTOBUF}");
        assert_eq!(format(&both), Format::Protobuf);
    }
}
