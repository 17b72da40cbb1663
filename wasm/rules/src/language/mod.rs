//! The language of rules: a parser, and the syntax tree that it returns.
//!
//! ```text
//! rules      = { fact | rule }
//! fact       = "fact" name "(" field { "," field } ")" ["strict"]
//! field      = name ":" ("integer" | "float" | "string" | "boolean") ["optional"] [domain] ["on_mismatch" "undefined"]
//! domain     = number ".." number | "in" "(" constant { "," constant } ")"
//! rule       = "rule" name ["priority" integer] "when" condition { condition } "then" action { "," action }
//! condition  = [name ":"] pattern
//!            | "none" pattern
//!            | name ":" ("count" pattern | ("sum" | "min" | "max") name "." name [arguments] { "," clause })
//!            | "either" "(" { condition } ")" { "or" "(" { condition } ")" }
//! pattern    = name [arguments] { "," clause }        a time clause needs no comma
//! arguments  = "(" [ clause { "," clause } ] ")"
//! clause     = expression | time
//! time       = ("after" | "before") name ["within" duration]
//!            | "within" duration ("after" | "before" | "of") name
//! duration   = integer ("milliseconds" | "seconds" | "minutes" | "hours" | "days")
//! action     = "assert" name [values] | "modify" name values | "retract" name | "notify" name [values]
//!            | "let" name "=" expression
//! values     = "(" [ name ":" expression { "," name ":" expression } ] ")"
//! expression = both { "or" both }
//! both       = negated { "and" negated }
//! negated    = "not" negated | comparison
//! comparison = sum [("=" | "<>" | "!=" | "<" | "<=" | ">" | ">=") sum | ["not"] "in" "(" constant, ... ")"
//!              | "is" ["not"] "null"]
//! sum        = product { ("+" | "-") product }
//! product    = factor { ("*" | "/" | "div" | "mod") factor }
//! factor     = "-" factor | number | string | "true" | "false" | "(" expression ")" | name ["." name]
//!            | "if" expression "then" expression "else" expression | function "(" expression, ... ")"
//! function   = "abs" | "min" | "max" | "floor" | "sqrt" | "atan2"
//! ```
//!
//! A name without a dot is a field of the condition's own fact, the name of an aggregate, or a name of `let`. `fact.at` is the
//! time of a fact in milliseconds. A comment starts with `#`. Durations take the singular too.

mod lexer;
mod parser;

pub(crate) use be_tree_index::language::suggest::nearest;

/// Returns a hint for an unknown name: a known name that is near, or else `otherwise`.
pub(crate) fn hint<'n>(name: &str, known: impl Iterator<Item = &'n str>, otherwise: &str) -> String {
    nearest(name, known).map_or(otherwise.to_owned(), |near| format!("did you mean `{near}`?"))
}
pub(crate) use parser::parse;

/// A byte offset in the text.
pub(crate) type Offset = usize;

/// A name and its place.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub text: String,
    pub at: Offset,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    pub facts: Vec<FactType>,
    pub rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
pub(crate) struct FactType {
    pub name: Name,
    pub fields: Vec<Field>,
    /// Whether facts with an unknown field are refused.
    pub strict: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub name: Name,
    pub ty: Name,
    pub optional: bool,
    /// Whether a misfit value counts as undefined.
    pub forgiving: bool,
    pub domain: Domain,
}

#[derive(Clone, Debug)]
pub(crate) enum Domain {
    Any,
    Range(Constant, Constant, Offset),
    Among(Vec<Constant>, Offset),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Constant {
    Integer(i64),
    Float(f64),
    String(String),
    Boolean(bool),
}

#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub name: Name,
    pub priority: i32,
    pub conditions: Vec<Condition>,
    pub actions: Vec<Action>,
}

#[derive(Clone, Debug)]
pub(crate) enum Condition {
    One(Pattern),
    Either(Vec<Vec<Condition>>),
}

#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub kind: PatternKind,
    pub name: Option<Name>,
    pub ty: Name,
    pub clauses: Vec<Clause>,
}

#[derive(Clone, Debug)]
pub(crate) enum PatternKind {
    Fact,
    None,
    Count,
    Sum(Name),
    Min(Name),
    Max(Name),
}

#[derive(Clone, Debug)]
pub(crate) enum Clause {
    Test(Expr),
    Time { relation: TimeRelation, anchor: Name, within: Option<i64> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeRelation {
    After,
    Before,
    Of,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Assert(Name, Vec<(Name, Expr)>),
    Modify(Name, Vec<(Name, Expr)>),
    Retract(Name),
    Notify(Name, Vec<(Name, Expr)>),
    Let(Name, Expr),
}

#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub at: Offset,
    pub node: Node,
    /// The nesting depth of operators and functions.
    pub depth: u32,
    /// The number of subexpressions, itself and the constants of lists included.
    pub size: u32,
}

impl Expr {
    pub fn new(at: Offset, node: Node) -> Self {
        let (mut depth, mut size) = (0, 0_u32);
        let mut add = |part: &Expr| {
            depth = part.depth.max(depth);
            size = size.saturating_add(part.size);
        };
        match &node {
            Node::Constant(_) | Node::Name(_) | Node::Field(..) => {}
            Node::Not(part) | Node::Negative(part) | Node::IsNull(part) | Node::In(part, _) => add(part),
            Node::Binary(_, left, right) => [left, right].into_iter().for_each(|part| add(part)),
            Node::If(parts) => parts.iter().for_each(add),
            Node::Call(_, arguments) => arguments.iter().for_each(add),
        }
        if let Node::In(_, constants) = &node {
            size = size.saturating_add(u32::try_from(constants.len()).unwrap_or(u32::MAX));
        }
        Expr { at, node, depth: depth + 1, size: size.saturating_add(1) }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    Constant(Constant),
    Name(String),
    Field(Name, Name),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    In(Box<Expr>, Vec<Constant>),
    IsNull(Box<Expr>),
    If(Box<[Expr; 3]>),
    Call(Function, Vec<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Or,
    And,
    Compare(Relation),
    Compute(Arithmetic),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Relation {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Div,
    Mod,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Function {
    Abs,
    Min,
    Max,
    Floor,
    Sqrt,
    Atan2,
}

impl Function {
    pub const ALL: [(&'static str, Function, usize); 6] = [
        ("abs", Function::Abs, 1),
        ("min", Function::Min, 2),
        ("max", Function::Max, 2),
        ("floor", Function::Floor, 1),
        ("sqrt", Function::Sqrt, 1),
        ("atan2", Function::Atan2, 2),
    ];
}
