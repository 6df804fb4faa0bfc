//! Expressions of admission: conditions of webhooks, and everything in policies. They see whole objects without a
//! schema, the request, and variables that are evaluated when an expression first needs them.
//!
//! Names that an expression starts from get a `#` in the tree ([`super::rewrite`]). No comprehension can shadow them
//! then, so that a variable has one value wherever it is used.

use super::authorizer::{self, Authorizer};
use super::budget::{self, Budget};
use super::types::{self, Returns};
use super::{check, functions, made, rewrite, source};
use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr, MapExpr, StructExpr};
use kube_cel::cel::objects::{Key, Map, Opaque};
use kube_cel::cel::{Context, ExecutionError, FunctionContext, Value as Cel};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Has the variables of a policy as fields.
pub(super) const VARIABLES: &str = "variables";
/// Names of every expression.
const ALWAYS: [&str; 4] = ["object", "oldObject", "request", "namespaceObject"];
/// Gives the value of a variable. No expression can write the name.
pub(super) const VARIABLE: &str = "#variable";
/// What [`VARIABLE`] takes the values from.
pub(super) const MEMO: &str = "#memo";
/// What `authorizer.requestResource` stands for.
pub(super) const REQUEST_RESOURCE: &str = "#requestResource";

/// How many values a variable may contain, more than objects have. The evaluator copies a variable wherever it is used: a
/// few of them that each contain the one before twice would fill the memory.
const LARGEST: usize = 1 << 18;

/// What an expression may refer to besides the objects and the request.
#[derive(Clone, Copy, Debug)]
pub struct Uses {
    /// `params`.
    pub params: bool,
    /// `authorizer`.
    pub authorizer: bool,
    /// What it must evaluate to.
    pub returns: Returns,
}

impl Default for Uses {
    /// Those of a condition without further names.
    fn default() -> Self {
        Uses { params: false, authorizer: false, returns: Returns::Bool }
    }
}

/// A compiled expression.
#[derive(Debug)]
pub struct Expression {
    source: String,
    tree: IdedExpr,
}

impl Expression {
    /// Compiles an expression without variables.
    ///
    /// # Errors
    /// Why the expression cannot be compiled.
    pub fn compile(source: &str, uses: Uses) -> Result<Expression, String> {
        Environment::default().compile(source, uses)
    }

    /// As it is written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Evaluates an expression that must be true or false.
    ///
    /// # Errors
    /// Why the evaluation failed, or that it exceeded the cost limit.
    pub fn holds(&self, objects: &Objects<'_>) -> Result<bool, String> {
        let outcome = Session::run(objects, |session| {
            session.evaluate(&Environment::default(), None, &mut Budget::default(), |it| it.value(self))
        });
        match outcome {
            Ok(Outcome::Bool(truth)) => Ok(truth),
            Ok(_) => Err("the expression is neither true nor false".to_string()),
            Err(failure) => Err(failure.to_string()),
        }
    }
}

/// The variables of a policy, in order. Each may refer to those before it.
#[derive(Debug, Default)]
pub struct Environment {
    names: Vec<String>,
    trees: Arc<Vec<IdedExpr>>,
    /// How deep the tree of each is, with those it refers to.
    depths: Vec<usize>,
}

impl Environment {
    /// Adds a variable. Its name is known afterwards even if its expression is not valid.
    ///
    /// # Errors
    /// Why the expression cannot be compiled.
    pub fn declare(&mut self, name: &str, source: &str, uses: Uses) -> Result<(), String> {
        let (tree, depth, outcome) = match self.build(source, uses) {
            Ok((tree, depth)) => (tree, depth, Ok(())),
            Err(why) => (IdedExpr::default(), 0, Err(why)),
        };
        self.names.push(name.to_string());
        self.depths.push(depth);
        Arc::make_mut(&mut self.trees).push(tree);
        outcome
    }

    /// Compiles an expression that may refer to the variables so far.
    ///
    /// # Errors
    /// Why the expression cannot be compiled.
    pub fn compile(&self, source: &str, uses: Uses) -> Result<Expression, String> {
        Ok(Expression { source: source.to_string(), tree: self.build(source, uses)?.0 })
    }

    /// The tree to evaluate, and how deep it is with the variables that it refers to.
    fn build(&self, source: &str, uses: Uses) -> Result<(IdedExpr, usize), String> {
        let optional = [(uses.params, "params"), (uses.authorizer, authorizer::NAME)];
        let names = optional.into_iter().filter(|(used, _)| *used).map(|(_, name)| name);
        let names: Vec<&str> = ALWAYS.into_iter().chain(names).collect();
        let parsed = source::parse(source)?;
        let depth = self.depth(&parsed);
        // Variables are evaluated inside of the expressions that use them: all of them need room on the stack.
        if depth > source::DEEPEST {
            return Err(format!("expression recursion limit exceeded: {}", source::DEEPEST));
        }
        let wrong_return = types::wrong_return(&parsed, uses.returns);
        let tree = rewrite::rewrite_free(parsed, &names, &self.names, uses.returns.is_constructed())?;
        wrong_return.map_or(Ok((tree, depth)), Err)
    }

    fn depth(&self, expr: &IdedExpr) -> usize {
        let deepest = |parts: &mut dyn Iterator<Item = &IdedExpr>| {
            parts.map(|part| self.depth(part)).max().unwrap_or(0)
        };
        1 + match &expr.expr {
            Expr::Select(select) => {
                let is_variable = matches!(&select.operand.expr, Expr::Ident(name) if name == VARIABLES);
                let place = self.names.iter().position(|name| is_variable && *name == select.field);
                let variable = place.and_then(|place| self.depths.get(place)).copied();
                variable.unwrap_or_else(|| self.depth(&select.operand))
            }
            Expr::Call(call) => deepest(&mut call.target.as_deref().into_iter().chain(&call.args)),
            Expr::List(list) => deepest(&mut list.elements.iter()),
            Expr::Map(MapExpr { entries }) | Expr::Struct(StructExpr { entries, .. }) => {
                deepest(&mut entries.iter().flat_map(|entry| match &entry.expr {
                    EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
                    EntryExpr::StructField(field) => vec![&field.value],
                }))
            }
            Expr::Comprehension(it) => deepest(
                &mut [&it.iter_range, &it.accu_init, &it.loop_cond, &it.loop_step, &it.result].into_iter(),
            ),
            Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => 0,
        }
    }
}

/// What expressions about one request see. Absent objects are null.
#[derive(Debug, Default)]
pub struct Objects<'a> {
    /// `object`.
    pub object: Option<&'a Value>,
    /// `oldObject`.
    pub old: Option<&'a Value>,
    /// `request`.
    pub request: Option<&'a Value>,
    /// `namespaceObject`.
    pub namespace: Option<&'a Value>,
    /// `authorizer`.
    pub authorizer: Option<Arc<dyn Authorizer>>,
}

/// The objects of a request, converted once for all expressions about them.
pub struct Session<'a> {
    context: &'a Context<'a>,
}

impl Session<'_> {
    /// Calls `with` with a session for these objects.
    pub fn run<T>(objects: &Objects<'_>, with: impl FnOnce(&Session<'_>) -> T) -> T {
        functions::with_base(|base| {
            let mut context = base.new_inner_scope();
            let given = [
                ("#object", objects.object),
                ("#oldObject", objects.old),
                ("#request", objects.request),
                ("#namespaceObject", objects.namespace),
            ];
            for (name, value) in given {
                context.add_variable_from_value(name, value.map_or(Cel::Null, plain));
            }
            if let Some(asked) = &objects.authorizer {
                let request = objects.request.unwrap_or(&Value::Null);
                context.add_variable_from_value("#authorizer", authorizer::root(asked));
                context
                    .add_variable_from_value(REQUEST_RESOURCE, authorizer::request_resource(asked, request));
            }
            with(&Session { context: &context })
        })
    }

    /// Calls `with` with an evaluator for one set of parameters. Variables keep their values until it returns.
    pub fn evaluate<T>(
        &self,
        environment: &Environment,
        params: Option<&Value>,
        budget: &mut Budget,
        with: impl FnOnce(&mut Evaluator<'_>) -> T,
    ) -> T {
        let mut context = self.context.new_inner_scope();
        context.add_variable_from_value("#params", params.map_or(Cel::Null, plain));
        let values = Mutex::new(vec![None; environment.trees.len()]);
        let memo = Memo { trees: Arc::clone(&environment.trees), values };
        context.add_variable_from_value(MEMO, Cel::Opaque(Arc::new(memo)));
        with(&mut Evaluator { context: &context, budget })
    }
}

/// The value of an expression, as far as admission needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// True or false.
    Bool(bool),
    /// A string.
    Text(String),
    /// Null.
    Null,
    /// A value of another type.
    Other,
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The expression failed.
    Expression(String),
    /// The expression has a value that is not what it must be.
    Value(String),
    /// The budget is spent: no more expressions may be evaluated.
    Budget,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Failure::Expression(why) | Failure::Value(why) => why,
            Failure::Budget => {
                "validation failed due to running out of cost budget, no further validation rules will be run"
            }
        })
    }
}

/// Evaluates expressions of one policy for one set of parameters.
pub struct Evaluator<'a> {
    context: &'a Context<'a>,
    budget: &'a mut Budget,
}

impl Evaluator<'_> {
    /// The value of an expression.
    ///
    /// # Errors
    /// Why it has none.
    pub fn value(&mut self, expression: &Expression) -> Result<Outcome, Failure> {
        Ok(match self.evaluate(expression)? {
            Cel::Bool(truth) => Outcome::Bool(truth),
            Cel::String(text) => Outcome::Text(text.to_string()),
            Cel::Null => Outcome::Null,
            _ => Outcome::Other,
        })
    }

    /// The object that an expression constructs, as far as it constructs one.
    ///
    /// # Errors
    /// Why there is none.
    pub fn configuration(&mut self, expression: &Expression) -> Result<Value, Failure> {
        made::configuration(&self.evaluate(expression)?).map_err(Failure::Value)
    }

    /// The JSON patch that an expression constructs.
    ///
    /// # Errors
    /// Why there is none.
    pub fn json_patch(&mut self, expression: &Expression) -> Result<Value, Failure> {
        made::patch(&self.evaluate(expression)?).map_err(Failure::Value)
    }

    fn evaluate(&mut self, expression: &Expression) -> Result<Cel, Failure> {
        let evaluated = self.budget.run(|| self.context.resolve(&expression.tree));
        match evaluated {
            Err(budget::Overrun::Object) => Err(Failure::Budget),
            Err(budget::Overrun::Call) => {
                Err(Failure::Expression("operation cancelled: actual cost limit exceeded".to_string()))
            }
            Ok(Err(error)) => {
                Err(Failure::Expression(check::why(&error).unwrap_or_else(|| "no such overload".to_string())))
            }
            Ok(Ok(value)) => Ok(value),
        }
    }
}

/// The variables of one evaluation: their expressions, and the values of those that were needed.
struct Memo {
    trees: Arc<Vec<IdedExpr>>,
    values: Mutex<Vec<Option<Result<Cel, ExecutionError>>>>,
}

impl std::fmt::Debug for Memo {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Memo").finish_non_exhaustive()
    }
}

impl PartialEq for Memo {
    fn eq(&self, other: &Memo) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Memo {}

impl Opaque for Memo {
    fn runtime_type_name(&self) -> &str {
        "dev.capstan.variables"
    }
}

impl Memo {
    fn value(&self, index: usize, context: &Context<'_>) -> Result<Cel, ExecutionError> {
        let known = |index: usize| {
            self.values.lock().unwrap_or_else(PoisonError::into_inner).get(index).cloned().flatten()
        };
        if let Some(value) = known(index) {
            return value;
        }
        let missing = || ExecutionError::function_error("variables", "no such variable");
        let value = self.trees.get(index).ok_or_else(missing).and_then(|tree| context.resolve(tree));
        let value = value.and_then(|value| is_small(&value).then_some(value).ok_or_else(too_large));
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = values.get_mut(index) {
            *slot = Some(value.clone());
        }
        value
    }
}

fn too_large() -> ExecutionError {
    ExecutionError::function_error("variables", format!("a variable has more than {LARGEST} values"))
}

/// Whether a value contains no more values than a variable may.
fn is_small(value: &Cel) -> bool {
    fn left(value: &Cel, most: usize) -> Option<usize> {
        let most = most.checked_sub(1)?;
        match value {
            Cel::List(items) => items.iter().try_fold(most, |most, item| left(item, most)),
            Cel::Map(map) => map.map.values().try_fold(most, |most, value| left(value, most)),
            _ => Some(most),
        }
    }
    left(value, LARGEST).is_some()
}

/// Adds the functions that only expressions of admission call.
pub(super) fn register(context: &mut Context<'_>) {
    context.add_function(
        VARIABLE,
        |function: &FunctionContext<'_, '_>, memo: Arc<dyn Opaque>, index: i64| {
            let missing = || ExecutionError::function_error("variables", "no such variable");
            let memo = memo.downcast_ref::<Memo>().ok_or_else(missing)?;
            memo.value(usize::try_from(index).map_err(|_| missing())?, function.ptx)
        },
    );
    authorizer::register(context);
}

/// A value without a schema.
fn plain(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Cel::Int(number),
            None => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(plain).collect())),
        Value::Object(fields) => {
            let fields =
                fields.iter().map(|(name, value)| (Key::String(Arc::new(name.clone())), plain(value)));
            Cel::Map(Map { map: Arc::new(fields.collect::<HashMap<_, _>>()) })
        }
    }
}
