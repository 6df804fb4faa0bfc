//! Prepares a parsed rule for the evaluator. Rejects what the evaluator does not support, and rewrites what it evaluates
//! differently from upstream:
//! * optional selection (`a.?b.c`) becomes optional indexing, which supports absent keys;
//! * `optMap`, `optFlatMap` and the comparison of optional values are expanded as documented;
//! * loops, and operations that make strings and lists longer, are charged for ([`super::budget`]);
//! * `size(a)` becomes `a.size()`, because only the target of a call keeps its own error;
//! * `+`, `==` and `!=` of sets and map lists become calls of the functions of [`super::lists`];
//! * constructions of objects become maps with the name of their type ([`super::made`]);
//! * fields of `self` and `oldSelf` that are compared with each other are taken from copies in which set lists and
//!   map lists are sorted, because their order must not matter.

use super::lists::ListKind;
use super::names::escape;
use super::{authorizer, budget, functions, made, policy};
use crate::raw::Raw;
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, ListExpr, LiteralValue,
    MapEntryExpr, MapExpr, SelectExpr, StructExpr, operators,
};
use serde_json::Value;

pub(super) const SELF: &str = "self";
pub(super) const OLD_SELF: &str = "oldSelf";
/// [`SELF`] and [`OLD_SELF`] with sets and maps of lists in one order.
pub(super) const SORTED: [(&str, &str); 2] = [(SELF, "self#sorted"), (OLD_SELF, "oldSelf#sorted")];

/// A name for what an expansion needs more than once. No rule can use it, and it is not needed below where it is given
/// anew.
const ONE: &str = "#one";

/// How many names every rule knows from the start.
const BUILT_IN: usize = 2 + functions::TYPES.len();

/// The expression to evaluate, or what the evaluator cannot do.
pub(super) fn rewrite(mut expr: IdedExpr, place: Place<'_>) -> Result<IdedExpr, String> {
    let whole = Some((place.schema, place.resource));
    let mut scope =
        vec![Known { name: SELF.into(), schema: whole }, Known { name: OLD_SELF.into(), schema: whole }];
    scope.extend(functions::TYPES.map(Known::untyped));
    Rewrite { place, free: None }.visit(&mut expr, &mut scope)?;
    Ok(expr)
}

/// The same for an expression of admission. It starts from `names`, and from the fields of `variables` if it has any.
/// That of a mutation may construct objects.
pub(super) fn rewrite_free(
    mut expr: IdedExpr,
    names: &[&str],
    variables: &[String],
    constructs: bool,
) -> Result<IdedExpr, String> {
    static NO_SCHEMA: Value = Value::Null;
    let place = Place { schema: Raw::new(&NO_SCHEMA), resource: false, optional_old_self: false };
    let mut scope: Vec<Known<'_>> = names.iter().map(|name| Known::untyped(name)).collect();
    scope.extend(functions::TYPES.map(Known::untyped));
    let authorizer = names.contains(&authorizer::NAME);
    let free = Free { roots: scope.len(), authorizer, variables, constructs };
    Rewrite { place, free: Some(free) }.visit(&mut expr, &mut scope)?;
    Ok(expr)
}

/// What an expression of admission may use besides its names.
struct Free<'a> {
    /// How many names it starts from; those of comprehensions follow.
    roots: usize,
    authorizer: bool,
    /// The variables of its policy.
    variables: &'a [String],
    /// Whether it knows the types of [`made`].
    constructs: bool,
}

impl Free<'_> {
    /// Whether `name` is not the variable of a comprehension here.
    fn is_root(&self, name: &str, scope: &[Known<'_>]) -> bool {
        !scope.iter().skip(self.roots).any(|inner| inner.name == name)
    }

    /// `jsonpatch.escapeKey(a)`
    fn is_escape_key(&self, call: &CallExpr, scope: &[Known<'_>]) -> bool {
        let target = call.target.as_ref().map(|target| &target.expr);
        let is_ours = matches!(target, Some(Expr::Ident(name)) if name == "jsonpatch");
        self.constructs && is_ours && call.func_name == "escapeKey" && self.is_root("jsonpatch", scope)
    }

    /// What the field of a variable that is not an object stands for.
    fn field_of_root(&self, select: &SelectExpr, scope: &[Known<'_>]) -> Result<Option<Expr>, String> {
        let Expr::Ident(name) = &select.operand.expr else { return Ok(None) };
        if !self.is_root(name, scope) {
            return Ok(None);
        }
        let field = &select.field;
        match name.as_str() {
            policy::VARIABLES if !self.variables.is_empty() => {
                let place = self.variables.iter().position(|name| name == field);
                let place = place.and_then(|place| i64::try_from(place).ok());
                let place = place.ok_or_else(|| format!("undefined field '{field}'"))?;
                if select.test {
                    return Ok(Some(Expr::Literal(LiteralValue::Boolean(true.into()))));
                }
                let place = IdedExpr { id: 0, expr: Expr::Literal(LiteralValue::Int(place.into())) };
                Ok(Some(call(policy::VARIABLE, None, vec![ident(policy::MEMO), place]).expr))
            }
            authorizer::NAME if self.authorizer && field == "requestResource" && !select.test => {
                Ok(Some(Expr::Ident(policy::REQUEST_RESOURCE.to_string())))
            }
            _ => Ok(None),
        }
    }
}

/// Where a rule is written, and how.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The schema of `self`.
    pub(crate) schema: Raw<'a>,
    /// Whether `self` is an object with `apiVersion`, `kind` and `metadata`.
    pub(crate) resource: bool,
    /// Whether `oldSelf` is optional.
    pub(crate) optional_old_self: bool,
}

/// Whether the expression refers to a variable, in either of its two forms.
pub(super) fn mentions(expr: &IdedExpr, variable: &str) -> bool {
    let references = expr.references();
    let sorted = SORTED.iter().find(|(plain, _)| *plain == variable).map(|(_, sorted)| *sorted);
    references.has_variable(variable) || sorted.is_some_and(|sorted| references.has_variable(sorted))
}

/// A name in scope, with the schema of its value as far as it is known.
struct Known<'a> {
    name: String,
    schema: Option<(Raw<'a>, bool)>,
}

impl Known<'_> {
    fn untyped(name: &str) -> Self {
        Known { name: name.to_string(), schema: None }
    }
}

struct Rewrite<'a> {
    place: Place<'a>,
    /// Set for an expression of admission.
    free: Option<Free<'a>>,
}

impl<'a> Rewrite<'a> {
    fn visit(&self, expr: &mut IdedExpr, scope: &mut Vec<Known<'a>>) -> Result<(), String> {
        match &mut expr.expr {
            Expr::Ident(name) if !scope.iter().any(|known| known.name == *name) => {
                return Err(undeclared(name));
            }
            Expr::Ident(name) => {
                if self.free.as_ref().is_some_and(|free| free.is_root(name, scope)) {
                    name.insert(0, '#');
                }
            }
            Expr::Literal(_) => {}
            Expr::Select(_) => self.select(expr, scope)?,
            Expr::Call(_) => self.call(expr, scope)?,
            Expr::List(list) => {
                for element in &mut list.elements {
                    self.visit(element, scope)?;
                }
            }
            Expr::Map(map) => {
                for entry in &mut map.entries {
                    match &mut entry.expr {
                        EntryExpr::MapEntry(entry) => {
                            self.visit(&mut entry.key, scope)?;
                            self.visit(&mut entry.value, scope)?;
                        }
                        EntryExpr::StructField(_) => return Err("messages are not supported".into()),
                    }
                }
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, scope)?,
            Expr::Struct(_) => self.construction(expr, scope)?,
            Expr::Unspecified => return Err("empty expression".into()),
        }
        Ok(())
    }

    /// `Object{a: 1}`
    fn construction(&self, expr: &mut IdedExpr, scope: &mut Vec<Known<'a>>) -> Result<(), String> {
        let Expr::Struct(construction) = &mut expr.expr else { return Ok(()) };
        let StructExpr { type_name, entries } = std::mem::take(construction);
        let name = type_name.strip_prefix('.').unwrap_or(&type_name);
        if !self.free.as_ref().is_some_and(|free| free.constructs && made::is_type(name)) {
            return Err(undeclared(&type_name));
        }
        let entry = |key: &str, value: IdedExpr, optional: bool| {
            let entry = MapEntryExpr { key: text(key), value, optional };
            IdedEntryExpr { id: 0, expr: EntryExpr::MapEntry(entry) }
        };
        let mut map = vec![entry(made::TYPE, call(made::NAMED, None, vec![text(name)]), false)];
        for mut field in entries.into_iter().filter_map(made::field_of) {
            made::wrong_field(name, &field).map_or(Ok(()), Err)?;
            self.visit(&mut field.value, scope)?;
            map.push(entry(&field.field, field.value, field.optional));
        }
        expr.expr = Expr::Map(MapExpr { entries: map });
        Ok(())
    }

    fn comprehension(&self, it: &mut ComprehensionExpr, scope: &mut Vec<Known<'a>>) -> Result<(), String> {
        if it.iter_var2.is_some() {
            return Err("comprehensions with two variables are not supported".into());
        }
        let item = self.schema_of(&it.iter_range, scope).and_then(|(list, _)| list.schema("items"));
        let bound = self.schema_of(&it.accu_init, scope);
        self.visit(&mut it.iter_range, scope)?;
        self.visit(&mut it.accu_init, scope)?;
        let outer = scope.len();
        let item = item.map(|item| (item, item.flag("x-kubernetes-embedded-resource")));
        scope.push(Known { name: it.iter_var.clone(), schema: item });
        scope.push(Known { name: it.accu_var.clone(), schema: bound });
        for part in [&mut it.loop_cond, &mut it.loop_step, &mut it.result] {
            self.visit(part, scope)?;
        }
        scope.truncate(outer);
        charge_loop(it);
        Ok(())
    }

    fn select(&self, expr: &mut IdedExpr, scope: &mut Vec<Known<'a>>) -> Result<(), String> {
        let Expr::Select(select) = &mut expr.expr else { return Ok(()) };
        if let Some(free) = &self.free
            && let Some(meant) = free.field_of_root(select, scope)?
        {
            expr.expr = meant;
            return Ok(());
        }
        self.visit(&mut select.operand, scope)?;
        if !self.is_optional(&select.operand) {
            if self.free.is_some() && !select.test {
                // The evaluator takes the field of what has no fields for false. An index of it is an error.
                let SelectExpr { operand, field, .. } = std::mem::take(select);
                expr.expr = call(operators::INDEX, None, vec![*operand, text(&field)]).expr;
                return Ok(());
            }
            return self.known_field(select, scope);
        }
        let SelectExpr { operand, field, test } = std::mem::take(select);
        let found = call(operators::OPT_INDEX, None, vec![*operand, text(&field)]);
        expr.expr = if test { call("hasValue", Some(found), vec![]).expr } else { found.expr };
        Ok(())
    }

    fn call(&self, expr: &mut IdedExpr, scope: &mut Vec<Known<'a>>) -> Result<(), String> {
        if let Some(expanded) = expand(expr)? {
            *expr = expanded;
            return self.visit(expr, scope);
        }
        let Expr::Call(call) = &mut expr.expr else { return Ok(()) };
        if self.free.as_ref().is_some_and(|free| free.is_escape_key(call, scope)) {
            (call.target, call.func_name) = (None, made::ESCAPE_KEY.to_string());
        } else if let Some(qualified) = qualified(call) {
            functions::refusal(&qualified).map_or(Ok(()), Err)?;
        } else {
            if let Some(target) = &mut call.target {
                self.visit(target, scope)?;
            }
            let operator = call.func_name.starts_with(|c: char| !c.is_ascii_alphabetic());
            let of_authorizer = self.free.as_ref().is_some_and(|free| free.authorizer)
                && call.target.is_some()
                && authorizer::FUNCTIONS.contains(&call.func_name.as_str());
            if !operator && !of_authorizer {
                functions::refusal(&call.func_name).map_or(Ok(()), Err)?;
            }
        }
        let lists = match call.args.as_slice() {
            [left, right] if !self.is_optional(left) && !self.is_optional(right) => {
                let kind = |side| self.schema_of(side, scope).and_then(|(schema, _)| ListKind::of(schema));
                (kind(left), kind(right))
            }
            _ => (None, None),
        };
        for argument in &mut call.args {
            self.visit(argument, scope)?;
        }
        if call.func_name == operators::OPT_SELECT {
            call.func_name = operators::OPT_INDEX.to_string();
        }
        let compares = matches!(call.func_name.as_str(), operators::EQUALS | operators::NOT_EQUALS);
        if compares && call.args.iter().any(|side| self.is_optional(side)) {
            open_both(call);
        } else if compares && lists.0 == lists.1 && !shadowed(scope) && are_roots(&call.args) {
            call.args.iter_mut().for_each(sort_root);
        } else if call.target.is_none() && functions::is_method(&call.func_name) && call.args.len() == 1 {
            call.target = call.args.pop().map(Box::new);
            if call.func_name == "string" {
                *expr = string_of(call);
            }
        } else if let (Some(left), _) = lists {
            on_lists(call, &left);
        }
        if is_in_nothing(expr) {
            *expr = IdedExpr { id: 0, expr: Expr::Literal(LiteralValue::Boolean(false.into())) };
        }
        charge_growth(expr);
        Ok(())
    }

    /// Refuses the selection of a field that the schema of its operand does not have.
    fn known_field(&self, select: &SelectExpr, scope: &[Known<'a>]) -> Result<(), String> {
        let schema = root_of(&select.operand).and_then(|_| self.schema_of(&select.operand, scope));
        let Some((schema, resource)) = schema.filter(|_| !shadowed(scope)) else { return Ok(()) };
        let closed = schema.ty() == "object" && schema.additional_schema().is_none();
        let known = schema.properties().any(|(name, _)| escape(name).as_deref() == Some(&select.field));
        let meta = resource && matches!(select.field.as_str(), "apiVersion" | "kind" | "metadata");
        if closed && !known && !meta {
            return Err(format!("undefined field '{}'", select.field));
        }
        Ok(())
    }

    /// The schema of an expression as it is written, as far as its form tells it, and whether it is that of a resource.
    fn schema_of(&self, expr: &IdedExpr, scope: &[Known<'a>]) -> Option<(Raw<'a>, bool)> {
        match &expr.expr {
            Expr::Ident(name) => scope.iter().rev().find(|known| known.name == *name)?.schema,
            Expr::Call(call) if call.func_name == operators::ADD => {
                self.schema_of(call.args.first()?, scope).filter(|(schema, _)| schema.ty() == "array")
            }
            Expr::Call(call) if call.func_name == operators::INDEX => {
                let (schema, _) = self.schema_of(call.args.first()?, scope)?;
                let inner = schema.schema("items").or_else(|| schema.additional_schema())?;
                Some((inner, inner.flag("x-kubernetes-embedded-resource")))
            }
            Expr::Call(call) if call.func_name == operators::CONDITIONAL => {
                let [_, yes, no] = call.args.as_slice() else { return None };
                let (yes, no) = (self.schema_of(yes, scope)?, self.schema_of(no, scope)?);
                (ListKind::of(yes.0) == ListKind::of(no.0)).then_some(yes)
            }
            Expr::Select(select) if !select.test => {
                let (schema, resource) = self.schema_of(&select.operand, scope)?;
                if resource && select.field == "metadata" {
                    return None;
                }
                let mut properties = schema.properties();
                let found = properties.find(|(name, _)| escape(name).as_deref() == Some(&select.field));
                let inner = found.map(|(_, schema)| schema).or_else(|| schema.additional_schema())?;
                Some((inner, inner.flag("x-kubernetes-embedded-resource")))
            }
            _ => None,
        }
    }

    fn is_optional(&self, expr: &IdedExpr) -> bool {
        match &expr.expr {
            Expr::Ident(name) => self.place.optional_old_self && name == OLD_SELF,
            Expr::Select(select) => !select.test && self.is_optional(&select.operand),
            Expr::Call(call) => match call.func_name.as_str() {
                operators::OPT_INDEX | operators::OPT_SELECT => true,
                operators::INDEX => call.args.first().is_some_and(|list| self.is_optional(list)),
                "or" | "of" | "none" | "ofNonZeroValue" => call.target.is_some(),
                _ => false,
            },
            _ => false,
        }
    }
}

/// Whether it asks if something is in an empty list: it is not, and as upstream, what it is does not matter then.
fn is_in_nothing(expr: &IdedExpr) -> bool {
    let Expr::Call(call) = &expr.expr else { return false };
    let is_empty = |list: &IdedExpr| matches!(&list.expr, Expr::List(list) if list.elements.is_empty());
    call.func_name == operators::IN && call.args.last().is_some_and(is_empty)
}

/// Has every turn of a loop paid for. A loop that collects a list copies it at each turn.
fn charge_loop(it: &mut ComprehensionExpr) {
    let taken = |part: &mut IdedExpr| std::mem::take(part);
    if matches!(it.accu_init.expr, Expr::List(_)) {
        it.iter_range = call(budget::COPIED, None, vec![taken(&mut it.iter_range)]);
    }
    // Upstream charges each step of each part, but not those that are skipped: half is a careful guess.
    let weight = (weight(&it.loop_step) / 2).max(1);
    let weight = IdedExpr { id: 0, expr: Expr::Literal(LiteralValue::Int(weight.into())) };
    let turn = call(budget::TURN, None, vec![weight]);
    it.loop_cond = call(operators::LOGICAL_AND, None, vec![taken(&mut it.loop_cond), turn]);
}

/// How many steps an expression has, without those of loops in it, which are charged for themselves.
fn weight(expr: &IdedExpr) -> i64 {
    match &expr.expr {
        Expr::Ident(_) => 1,
        Expr::Select(select) => 1 + weight(&select.operand),
        Expr::Call(call) => {
            let target = call.target.as_deref().map_or(0, weight);
            1 + target + call.args.iter().map(weight).sum::<i64>()
        }
        Expr::List(list) => list.elements.iter().map(weight).sum(),
        _ => 0,
    }
}

/// Has what makes texts and lists longer paid for.
fn charge_growth(expr: &mut IdedExpr) {
    let Expr::Call(made) = &mut expr.expr else { return };
    match made.func_name.as_str() {
        // One more element: the loop around it is charged.
        operators::ADD if matches!(made.args.last().map(|arg| &arg.expr), Some(Expr::List(_))) => {}
        operators::ADD | "format" | "join" | "replace" | made::ESCAPE_KEY => {
            let made = std::mem::take(expr);
            *expr = call(budget::GROWN, None, vec![made]);
        }
        "range" if made.target.is_some() => {
            for length in &mut made.args {
                *length = call(budget::PLANNED, None, vec![std::mem::take(length)]);
            }
        }
        _ => {}
    }
}

/// Whether a variable of a comprehension has taken the name of `self` or `oldSelf`.
fn shadowed(scope: &[Known<'_>]) -> bool {
    scope.iter().skip(BUILT_IN).any(|known| known.name == SELF || known.name == OLD_SELF)
}

/// `a.string()`, which the evaluator does not know for true and false.
fn string_of(conversion: &mut CallExpr) -> IdedExpr {
    let value = || ident(ONE);
    let is_bool = call(functions::IS_BOOL, Some(value()), vec![]);
    let choice = |cond, yes, no| call(operators::CONDITIONAL, None, vec![cond, yes, no]);
    let name = choice(value(), text("true"), text("false"));
    let body = choice(is_bool, name, call("string", Some(value()), vec![]));
    bind(ONE, conversion.target.take().map(|target| *target).unwrap_or_default(), body)
}

/// `a == b` or `a != b` of two optional values: both absent, or both there and equal.
fn open_both(comparison: &mut CallExpr) {
    for side in &mut comparison.args {
        *side = call(functions::OPENED, None, vec![std::mem::take(side)]);
    }
}

/// `prefix.name` if that is how a function is called that lives under a prefix.
fn qualified(call: &CallExpr) -> Option<String> {
    let target = call.target.as_ref()?;
    let Expr::Ident(prefix) = &target.expr else { return None };
    let namespaces = ["format", "ip", "lists", "optional", "sets", "strings"];
    let known = namespaces.contains(&prefix.as_str());
    known.then(|| format!("{prefix}.{}", call.func_name))
}

/// The expansion of a macro the parser does not know. What it stands on is named, not repeated: macros on macros would
/// double it each time.
fn expand(expr: &IdedExpr) -> Result<Option<IdedExpr>, String> {
    let Expr::Call(CallExpr { func_name, target: Some(target), args }) = &expr.expr else { return Ok(None) };
    let variable = |arg: &IdedExpr| match &arg.expr {
        Expr::Ident(name) => Ok(name.clone()),
        _ => Err(format!("{func_name}() variable name must be a simple identifier")),
    };
    let (flat, [name, body]) = (func_name == "optFlatMap", args.as_slice()) else { return Ok(None) };
    if !flat && func_name != "optMap" {
        return Ok(None);
    }
    let first = IdedExpr { id: 0, expr: Expr::Literal(LiteralValue::Int(0.into())) };
    let value = call(operators::INDEX, None, vec![ident(ONE), first]);
    let mapped = bind(&variable(name)?, value, body.clone());
    let optional = || Some(ident("optional"));
    let then = if flat { mapped } else { call("of", optional(), vec![mapped]) };
    let none = IdedExpr { id: 0, expr: Expr::List(ListExpr::new(vec![])) };
    let has = call(operators::NOT_EQUALS, None, vec![ident(ONE), none]);
    let choice = call(operators::CONDITIONAL, None, vec![has, then, call("none", optional(), vec![])]);
    Ok(Some(bind(ONE, call(functions::OPENED, None, vec![(**target).clone()]), choice)))
}

/// `body` with `variable` standing for `value`: a loop over nothing, whose result is the body.
fn bind(variable: &str, value: IdedExpr, body: IdedExpr) -> IdedExpr {
    let no = || IdedExpr { id: 0, expr: Expr::Literal(LiteralValue::Boolean(false.into())) };
    IdedExpr {
        id: 0,
        expr: Expr::Comprehension(Box::new(ComprehensionExpr {
            iter_range: IdedExpr { id: 0, expr: Expr::List(ListExpr::new(vec![])) },
            iter_var: "#unused".into(),
            iter_var2: None,
            accu_var: variable.into(),
            accu_init: value,
            loop_cond: no(),
            loop_step: no(),
            result: body,
        })),
    }
}

fn call(name: &str, target: Option<IdedExpr>, args: Vec<IdedExpr>) -> IdedExpr {
    let call = CallExpr { func_name: name.to_string(), target: target.map(Box::new), args };
    IdedExpr { id: 0, expr: Expr::Call(call) }
}

fn ident(name: &str) -> IdedExpr {
    IdedExpr { id: 0, expr: Expr::Ident(name.to_string()) }
}

fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}' (in container '')")
}

fn text(text: &str) -> IdedExpr {
    IdedExpr { id: 0, expr: Expr::Literal(LiteralValue::String(text.into())) }
}

/// Replaces `+`, `==` and `!=` of a set or a map list on the left by their functions.
fn on_lists(operator: &mut CallExpr, left: &ListKind) {
    let function = match operator.func_name.as_str() {
        operators::ADD => left.sum(),
        operators::EQUALS | operators::NOT_EQUALS => left.equality(),
        _ => None,
    };
    let Some(function) = function else { return };
    let mut args = std::mem::take(&mut operator.args);
    if !left.keys().is_empty() {
        let keys = left.keys().iter().map(|key| text(key)).collect();
        args.push(IdedExpr { id: 0, expr: Expr::List(ListExpr::new(keys)) });
    }
    let name = match operator.func_name.as_str() {
        operators::ADD => budget::GROWN,
        operators::EQUALS => "dyn",
        _ => operators::LOGICAL_NOT,
    };
    *operator =
        CallExpr { func_name: name.to_string(), target: None, args: vec![call(function, None, args)] };
}

fn are_roots(sides: &[IdedExpr]) -> bool {
    sides.iter().all(|side| root_of(side).is_some())
}

/// The variable that a chain of field selections starts from, if it is [`SELF`] or [`OLD_SELF`].
fn root_of(expr: &IdedExpr) -> Option<&'static str> {
    match &expr.expr {
        Expr::Ident(name) => SORTED.iter().map(|(plain, _)| *plain).find(|plain| plain == name),
        Expr::Select(select) if !select.test => root_of(&select.operand),
        _ => None,
    }
}

fn sort_root(expr: &mut IdedExpr) {
    match &mut expr.expr {
        Expr::Ident(name) => {
            if let Some((_, sorted)) = SORTED.iter().find(|(plain, _)| plain == name) {
                *name = (*sorted).to_string();
            }
        }
        Expr::Select(select) => sort_root(&mut select.operand),
        _ => {}
    }
}
