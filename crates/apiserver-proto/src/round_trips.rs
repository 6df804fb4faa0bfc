//! What is written is read as what it was: random objects of every kind, made from the facts.

use base64::{Engine, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use serde_json::{Map, Number, Value, json};

use crate::{
    decode, duration, encode,
    facts::{Facts, Field, FieldType, Special},
};

/// Below this, only fields that are always written.
const DEEP: usize = 6;

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 20
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    fn word(&mut self) -> String {
        ["a", "été", "two words", "\"quoted\"\n", "x.y/z", "long ".repeat(60).as_str()]
            [self.below(6) as usize]
            .to_owned()
    }
}

/// The fields of a message, with every field that Go always has in JSON.
fn object(facts: &Facts, message: &str, dice: &mut Dice, depth: usize) -> Map<String, Value> {
    let mut object = Map::new();
    for field in facts.fields(message) {
        if field.name.is_empty() {
            if let FieldType::Message(inner) = &field.kind {
                object.extend(self::object(facts, inner, dice, depth + 1));
            }
            continue;
        }
        let is_optional = field.drop_zero || !field.always;
        if is_optional && (depth > DEEP || dice.below(4) == 0) {
            continue;
        }
        let value = field_value(facts, field, dice, depth);
        let is_empty = value.as_object().is_some_and(Map::is_empty);
        if !(field.drop_zero && is_empty) {
            object.insert(field.name.clone(), value);
        }
    }
    object
}

fn field_value(facts: &Facts, field: &Field, dice: &mut Dice, depth: usize) -> Value {
    let may_be_zero = field.always && !field.drop_zero;
    match &field.kind {
        FieldType::List(kind) => (0..=dice.below(3)).map(|_| value(facts, kind, dice, depth, true)).collect(),
        FieldType::Map(kind) => {
            let entries = (0..=dice.below(3)).map(|_| (dice.word(), value(facts, kind, dice, depth, true)));
            Value::Object(entries.collect())
        }
        FieldType::Special(Special::Time | Special::MicroTime) if may_be_zero && dice.coin() => Value::Null,
        kind => value(facts, kind, dice, depth, may_be_zero),
    }
}

/// A value; the zero value only where JSON has it.
fn value(facts: &Facts, kind: &FieldType, dice: &mut Dice, depth: usize, may_be_zero: bool) -> Value {
    match kind {
        FieldType::Text if may_be_zero && dice.coin() => "".into(),
        FieldType::Text => dice.word().into(),
        FieldType::Bytes => STANDARD.encode(dice.word()).into(),
        FieldType::Bool => (!may_be_zero || dice.coin()).into(),
        FieldType::Signed => match dice.below(3) {
            0 if may_be_zero => 0.into(),
            1 => (-1 - dice.next().cast_signed()).into(),
            _ => (1 + dice.next()).into(),
        },
        FieldType::Unsigned => (1 + dice.next()).into(),
        FieldType::Double => {
            Number::from_f64(1.0 + dice.next() as f64 / 8.0).map_or(Value::Null, Value::Number)
        }
        FieldType::Message(message) => Value::Object(object(facts, message, dice, depth + 1)),
        FieldType::List(kind) | FieldType::Nested(kind) => {
            (0..dice.below(3)).map(|_| value(facts, kind, dice, depth + 1, true)).collect()
        }
        FieldType::Map(_) => unreachable!("maps are fields"),
        FieldType::Special(special) => special_value(facts, special, dice, depth),
    }
}

fn special_value(facts: &Facts, special: &Special, dice: &mut Dice, depth: usize) -> Value {
    match special {
        Special::Time => ["2026-01-01T00:00:00Z", "1960-02-29T23:59:59Z"][dice.below(2) as usize].into(),
        Special::MicroTime => {
            ["2026-01-01T00:00:00.000001Z", "1960-02-29T23:59:59.123456Z"][dice.below(2) as usize].into()
        }
        Special::Duration => duration::written(dice.next().cast_signed() - 1_000_000).into(),
        Special::Raw => [json!({"b": [1, null, {"a": 2.5}]}), json!("text"), json!(false), json!([])]
            [dice.below(4) as usize]
            .clone(),
        Special::Quantity => ["0", "500m", "2Gi"][dice.below(3) as usize].into(),
        Special::IntOrString if dice.coin() => dice.word().into(),
        Special::IntOrString => dice.below(100).into(),
        Special::OneOf(message) => {
            let fields = facts.fields(message);
            match &fields[dice.below(fields.len() as u64) as usize].kind {
                FieldType::List(kind) => {
                    (0..=dice.below(2)).map(|_| value(facts, kind, dice, depth + 1, true)).collect()
                }
                // As deep as an object would be.
                kind => value(facts, kind, dice, depth + 1, true),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_kind_is_read_as_it_was_written(seed: u64) {
        let (facts, mut dice) = (Facts::get(), Dice(seed));
        for (name, message) in facts.kinds() {
            let (api_version, kind) = name.rsplit_once('/').unwrap_or(("v1", name));
            let mut object = object(facts, message, &mut dice, 0);
            object.insert("apiVersion".to_owned(), api_version.into());
            object.insert("kind".to_owned(), kind.into());
            let object = Value::Object(object);
            let bytes = encode(&object).unwrap_or_else(|error| panic!("{name}: {error}\n{object}"));
            let read = decode(&bytes).unwrap_or_else(|error| panic!("{name}: {error}\n{object}"));
            prop_assert_eq!(&read, &object, "{}", name);
            // Where nothing is said of what Go always has, it is written as nothing.
            let blank = serde_json::json!({"apiVersion": api_version, "kind": kind});
            let bytes = encode(&blank).unwrap_or_else(|error| panic!("{name}: {error}"));
            let read = decode(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
            prop_assert_eq!(encode(&read), Ok(bytes), "{}", name);
        }
    }
}
