//! Changes a parsed template before it runs: unknown functions are found, every step uses fuel, and values are printed
//! as Go prints them.

use super::{Dialect, TemplateError, functions};
use gotmpl::parse::{BranchNode, CommandNode, Expr, ListNode, Node, PipeNode, Pos, SmolStr};

/// Returns its argument.
pub(super) const STEP: &str = "\u{0}step";
/// Returns its argument as text, but a null as it is.
pub(super) const PRINT: &str = "\u{0}print";
/// Returns a null.
pub(super) const NIL: &str = "\u{0}nil";

/// The change of one template.
pub(super) struct Rewrite {
    pub(super) dialect: Dialect,
}

impl Rewrite {
    pub(super) fn list(&self, mut list: ListNode) -> Result<ListNode, TemplateError> {
        list.nodes.iter_mut().try_for_each(|node| self.node(node))?;
        Ok(list)
    }

    fn node(&self, node: &mut Node) -> Result<(), TemplateError> {
        match node {
            Node::List(list) => list.nodes.iter_mut().try_for_each(|node| self.node(node)),
            Node::Action(action) => {
                let last = if action.pipe.decl.is_empty() { PRINT } else { STEP };
                self.pipe(&mut action.pipe, Some(last))
            }
            Node::If(branch) | Node::Range(branch) | Node::With(branch) => self.branch(branch),
            Node::Template(call) => match &mut call.pipe {
                Some(pipe) => self.pipe(pipe, Some(STEP)),
                // Without an argument, the template gets a null.
                None => {
                    let (pos, commands) = (call.pos, vec![call_of(call.pos, NIL), call_of(call.pos, STEP)]);
                    call.pipe = Some(PipeNode { pos, decl: Vec::new(), commands, is_assign: false });
                    Ok(())
                }
            },
            Node::Define(define) => define.body.nodes.iter_mut().try_for_each(|node| self.node(node)),
            Node::Text(_) | Node::Break(_) | Node::Continue(_) => Ok(()),
        }
    }

    fn branch(&self, branch: &mut BranchNode) -> Result<(), TemplateError> {
        self.pipe(&mut branch.pipe, Some(STEP))?;
        branch.body.nodes.iter_mut().try_for_each(|node| self.node(node))?;
        branch.else_body.iter_mut().flat_map(|list| &mut list.nodes).try_for_each(|node| self.node(node))
    }

    /// `last` is the function that gets the result.
    fn pipe(&self, pipe: &mut PipeNode, last: Option<&str>) -> Result<(), TemplateError> {
        for command in &mut pipe.commands {
            command.args.iter_mut().try_for_each(|argument| self.expression(argument))?;
        }
        let mut commands = Vec::with_capacity(pipe.commands.len() + 1);
        for (i, mut command) in std::mem::take(&mut pipe.commands).into_iter().enumerate() {
            if print_floats(&mut command, i > 0) {
                commands.push(call_of(command.pos, PRINT));
            }
            commands.push(command);
        }
        commands.extend(last.map(|last| call_of(pipe.pos, last)));
        pipe.commands = commands;
        Ok(())
    }

    fn expression(&self, expression: &mut Expr) -> Result<(), TemplateError> {
        match expression {
            Expr::Identifier(_, name) => self.function(name),
            Expr::Pipe(_, pipe) => self.pipe(pipe, None),
            Expr::Chain(_, inner, _) => self.expression(inner),
            _ => Ok(()),
        }
    }

    fn function(&self, name: &str) -> Result<(), TemplateError> {
        let is_value = self.dialect == Dialect::Values;
        if functions::BUILTIN.contains(&name) || (is_value && functions::is_known(name)) {
            return Ok(());
        }
        if let Some((_, why)) = functions::UNSUPPORTED.iter().find(|(known, _)| is_value && *known == name) {
            return Err(TemplateError::UnsupportedFunction { name: name.to_string(), why });
        }
        if is_value && functions::NOT_HERMETIC.contains(&name) {
            return Err(TemplateError::Hermetic(name.to_string()));
        }
        Err(TemplateError::UnknownFunction(name.to_string()))
    }
}

/// A call without arguments of its own: the value before it is its argument.
fn call_of(pos: Pos, function: &str) -> CommandNode {
    CommandNode { pos, args: vec![Expr::Identifier(pos, SmolStr::new(function))] }
}

/// Arguments of `printf` for a plain `%v` become text, because the library writes large numbers other than Go does.
/// Whether the value that is piped into the command must become text, too.
fn print_floats(command: &mut CommandNode, is_piped: bool) -> bool {
    let [Expr::Identifier(_, name), Expr::String(_, written), arguments @ ..] = command.args.as_mut_slice()
    else {
        return false;
    };
    if name.as_str() != "printf" {
        return false;
    }
    let plain = plain_values(written);
    for (argument, is_plain) in arguments.iter_mut().zip(&plain) {
        if *is_plain && !matches!(argument, Expr::Nil(_)) {
            let pos = argument.pos();
            let value = CommandNode { pos, args: vec![std::mem::replace(argument, Expr::Nil(pos))] };
            let commands = vec![value, call_of(pos, PRINT)];
            *argument = Expr::Pipe(pos, PipeNode { pos, decl: Vec::new(), commands, is_assign: false });
        }
    }
    is_piped && plain.get(arguments.len()).copied().unwrap_or_default()
}

/// For each argument of a format: whether it is written by `%v`. Empty if the format names arguments by number.
fn plain_values(format: &str) -> Vec<bool> {
    let mut plain = Vec::new();
    let mut rest = format.chars();
    while let Some(letter) = rest.next() {
        if letter != '%' {
            continue;
        }
        for letter in rest.by_ref() {
            match letter {
                '[' | '*' => return Vec::new(),
                '+' | '-' | '#' | ' ' | '.' | '0'..='9' => {}
                '%' => break,
                verb => {
                    plain.push(verb == 'v');
                    break;
                }
            }
        }
    }
    plain
}
