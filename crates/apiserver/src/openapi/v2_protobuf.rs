//! The document of OpenAPI v2 in protobuf, as Go's clients read it. Pure.
//!
//! Numbers of fields are those of gnostic's messages for OpenAPI v2.

use serde_json::Value;

/// The whole document.
pub(super) fn encoded(document: &Value) -> Vec<u8> {
    let mut message = Message::default();
    message.text(1, &document["swagger"]);
    let mut info = Message::default();
    info.text(1, &document["info"]["title"]).text(2, &document["info"]["version"]);
    message.message(2, &info);
    let mut paths = Message::default();
    for (name, item) in fields(&document["paths"]) {
        paths.message(2, &named(name, &path_item(item)));
    }
    message.message(8, &paths).message(9, &schemas(&document["definitions"]));
    message.0
}

/// Fields with numbers, in the order in which they are written.
#[derive(Default)]
struct Message(Vec<u8>);

/// How the value of a field is written.
enum Wire {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
}

impl Message {
    fn tag(&mut self, number: u64, wire: Wire) {
        self.varint(number << 3 | wire as u64);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }

    fn bytes(&mut self, number: u64, bytes: &[u8]) -> &mut Self {
        self.tag(number, Wire::Bytes);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn message(&mut self, number: u64, message: &Self) -> &mut Self {
        self.bytes(number, &message.0)
    }

    /// A text, if it is one.
    fn text(&mut self, number: u64, value: &Value) -> &mut Self {
        if let Some(text) = value.as_str() {
            self.bytes(number, text.as_bytes());
        }
        self
    }

    fn texts(&mut self, number: u64, values: &Value) -> &mut Self {
        for value in values.as_array().into_iter().flatten() {
            self.text(number, value);
        }
        self
    }

    fn flag(&mut self, number: u64, value: &Value) -> &mut Self {
        if let Some(flag) = value.as_bool() {
            self.tag(number, Wire::Varint);
            self.varint(flag.into());
        }
        self
    }

    fn count(&mut self, number: u64, value: &Value) -> &mut Self {
        if let Some(count) = value.as_u64() {
            self.tag(number, Wire::Varint);
            self.varint(count);
        }
        self
    }

    fn double(&mut self, number: u64, value: &Value) -> &mut Self {
        if let Some(double) = value.as_f64() {
            self.tag(number, Wire::Fixed64);
            self.0.extend_from_slice(&double.to_le_bytes());
        }
        self
    }

    fn any(&mut self, number: u64, value: &Value) -> &mut Self {
        if !value.is_null() {
            self.message(number, &any(value));
        }
        self
    }

    /// Fields that begin with `x-`.
    fn extensions(&mut self, number: u64, of: &Value) -> &mut Self {
        for (name, value) in fields(of).filter(|(name, _)| name.starts_with("x-")) {
            self.message(number, &named(name, &any(value)));
        }
        self
    }
}

fn fields(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten()
}

/// An entry of a map.
fn named(name: &str, value: &Message) -> Message {
    let mut entry = Message::default();
    entry.bytes(1, name.as_bytes()).message(2, value);
    entry
}

/// A value of any type is YAML, of which JSON is a part.
fn any(value: &Value) -> Message {
    let mut message = Message::default();
    message.bytes(2, format!("{value}\n").as_bytes());
    message
}

fn schemas(schemas: &Value) -> Message {
    let mut message = Message::default();
    for (name, value) in fields(schemas) {
        message.message(1, &named(name, &schema(value)));
    }
    message
}

/// A message with one field that is a message.
fn within(number: u64, inner: &Message) -> Message {
    let mut message = Message::default();
    message.message(number, inner);
    message
}

fn schema(schema: &Value) -> Message {
    let mut message = Message::default();
    message.text(1, &schema["$ref"]).text(2, &schema["format"]).text(3, &schema["title"]);
    message.text(4, &schema["description"]).any(5, &schema["default"]).double(6, &schema["multipleOf"]);
    message.double(7, &schema["maximum"]).flag(8, &schema["exclusiveMaximum"]);
    message.double(9, &schema["minimum"]).flag(10, &schema["exclusiveMinimum"]);
    message.count(11, &schema["maxLength"]).count(12, &schema["minLength"]).text(13, &schema["pattern"]);
    message.count(14, &schema["maxItems"]).count(15, &schema["minItems"]).flag(16, &schema["uniqueItems"]);
    message.count(17, &schema["maxProperties"]).count(18, &schema["minProperties"]);
    message.texts(19, &schema["required"]);
    for value in schema["enum"].as_array().into_iter().flatten() {
        message.message(20, &any(value));
    }
    match &schema["additionalProperties"] {
        Value::Bool(_) => {
            let mut allowed = Message::default();
            allowed.flag(2, &schema["additionalProperties"]);
            message.message(21, &allowed);
        }
        rest @ Value::Object(_) => {
            message.message(21, &within(1, &self::schema(rest)));
        }
        _ => {}
    }
    if schema["type"].is_string() {
        let mut types = Message::default();
        types.text(1, &schema["type"]);
        message.message(22, &types);
    }
    if schema["items"].is_object() {
        message.message(23, &within(1, &self::schema(&schema["items"])));
    }
    if schema["properties"].is_object() {
        message.message(25, &schemas(&schema["properties"]));
    }
    message.extensions(31, schema);
    message
}

fn path_item(item: &Value) -> Message {
    let mut message = Message::default();
    for (number, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if item[method].is_object() {
            message.message(number, &operation(&item[method]));
        }
    }
    parameters(&mut message, 9, &item["parameters"]);
    message
}

fn operation(operation: &Value) -> Message {
    let mut message = Message::default();
    message.texts(6, &operation["produces"]).texts(7, &operation["consumes"]);
    parameters(&mut message, 8, &operation["parameters"]);
    let mut responses = Message::default();
    for (code, response) in fields(&operation["responses"]) {
        let mut value = Message::default();
        value.text(1, &response["description"]);
        if response["schema"].is_object() {
            value.message(2, &within(1, &schema(&response["schema"])));
        }
        responses.message(1, &named(code, &within(1, &value)));
    }
    message.message(9, &responses).extensions(13, operation);
    message
}

fn parameters(message: &mut Message, number: u64, parameters: &Value) {
    for parameter in parameters.as_array().into_iter().flatten() {
        message.message(number, &within(1, &self::parameter(parameter)));
    }
}

fn parameter(parameter: &Value) -> Message {
    let mut message = Message::default();
    if parameter["in"] == "body" {
        message.text(2, &parameter["name"]).text(3, &parameter["in"]).flag(4, &parameter["required"]);
        message.message(5, &schema(&parameter["schema"]));
        return within(1, &message);
    }
    message.flag(1, &parameter["required"]).text(2, &parameter["in"]).text(4, &parameter["name"]);
    // A parameter of the query may be empty: all later fields have the next number.
    let (kind, later) = if parameter["in"] == "path" { (4, 0) } else { (3, 1) };
    message.text(5 + later, &parameter["type"]).flag(19 + later, &parameter["uniqueItems"]);
    within(2, &within(kind, &message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_have_their_numbers() {
        let document = json!({
            "swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.36"},
            "paths": {"/a": {"get": {"produces": ["j"], "parameters": [], "responses": {"200": {"description": "OK"}}}}},
            "definitions": {"A": {"type": "object", "maxLength": 300, "x-a": true}},
        });
        let expected = [
            &b"\x0a\x032.0\x12\x13\x0a\x0aKubernetes\x12\x05v1.36"[..],
            // paths: path { name: "/a" value: get { produces: "j" responses: response_code {…} } }
            b"\x42\x1e\x12\x1c\x0a\x02/a\x12\x16\x12\x14\x32\x01j\x4a\x0f\x0a\x0d\x0a\x03200\x12\x06\x0a\x04\x0a\x02OK",
            // definitions: additional_properties { name: "A" value: max_length, type, vendor_extension }
            b"\x4a\x26\x0a\x24\x0a\x01A\x12\x1f\x58\xac\x02\xb2\x01\x08\x0a\x06object\xfa\x01\x0e\x0a\x03x-a\x12\x07\x12\x05true\x0a",
        ]
        .concat();
        assert_eq!(encoded(&document), expected);
    }
}
