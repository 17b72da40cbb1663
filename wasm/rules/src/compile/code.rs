//! Expressions over the fields of bound facts, with names and types resolved.
//!
//! A value is 64 bits: an integer, the bits of a float, the address of a string, or 0 and 1 for booleans. Types are checked when
//! rules are compiled. A test of an undefined field is false, and `not` makes it true, as in expressions of the index. Arithmetic
//! with an undefined operand, an overflow or a division by zero is undefined.

use crate::language::Function;
pub(crate) use crate::language::{Arithmetic, Relation};
use crate::layout::{DEFINED, NUMBER, TIME};
use crate::memory::{Address, Words};

/// The most facts that a rule's conditions can bind.
pub(crate) const SLOTS: usize = 16;
/// The slot of the fact that a `none`, an aggregate or a single-fact condition tests.
pub(crate) const OWN: u8 = SLOTS as u8;

/// The facts that conditions bound, by slot.
pub(crate) type Bound = [Address; SLOTS + 1];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Integer,
    Float,
    String,
    Boolean,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Code {
    Constant(u64),
    /// A field: its slot, its offset from the fact's address, and its bit in the word of defined fields, or 0 if it is required.
    Field {
        slot: u8,
        offset: u32,
        bit: u32,
    },
    /// The time of a fact.
    Time(u8),
    /// The value of an aggregate or of a `let`.
    Local(u8),
    Not(Box<Code>),
    And(Box<Code>, Box<Code>),
    Or(Box<Code>, Box<Code>),
    Compare(Kind, Relation, Box<Code>, Box<Code>),
    Arithmetic(Kind, Arithmetic, Box<Code>, Box<Code>),
    Negative(Kind, Box<Code>),
    ToFloat(Box<Code>),
    In(Kind, Box<Code>, Vec<u64>),
    IsNull(Box<Code>),
    If(Box<[Code; 3]>),
    Call(Function, Kind, Vec<Code>),
    /// One fact is later than another, by less than a duration.
    After {
        later: u8,
        earlier: u8,
        less_than: Option<i64>,
    },
    /// The times of two facts differ by less than a duration.
    Near {
        slots: [u8; 2],
        less_than: i64,
    },
}

/// The sums, counts and `let` values of a rule.
pub(crate) type Locals = [Option<u64>; SLOTS];

/// The values that an expression can read.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub words: &'a Words,
    pub bound: &'a Bound,
    pub locals: &'a Locals,
}

pub(crate) const NO_LOCALS: Locals = [None; SLOTS];

impl Code {
    /// Returns the value, or `None` if it is undefined.
    #[inline]
    pub fn value(&self, scope: Scope) -> Option<u64> {
        // The fast path: most values of actions are constants or fields.
        match *self {
            Code::Constant(constant) => Some(constant),
            Code::Field { slot, offset, bit } => Operand::Field { slot, offset, bit }.value(scope.words, scope.bound),
            _ => self.compute(scope),
        }
    }

    fn compute(&self, scope: Scope) -> Option<u64> {
        let words = scope.words;
        Some(match self {
            Code::Constant(_) | Code::Field { .. } => return self.value(scope),
            Code::Time(slot) => words.get64(scope.bound[*slot as usize] + TIME),
            Code::Local(local) => return scope.locals[*local as usize],
            Code::Negative(Kind::Float, operand) => (-f64::from_bits(operand.value(scope)?)).to_bits(),
            Code::Negative(_, operand) => (operand.value(scope)? as i64).checked_neg()? as u64,
            Code::Arithmetic(kind, operator, left, right) => {
                arithmetic(*kind, *operator, left.value(scope)?, right.value(scope)?)?
            }
            Code::ToFloat(operand) => (operand.value(scope)? as i64 as f64).to_bits(),
            Code::If(parts) => {
                let [condition, yes, no] = &**parts;
                return if condition.holds(scope) { yes.value(scope) } else { no.value(scope) };
            }
            Code::Call(function, kind, arguments) => {
                let first = arguments[0].value(scope)?;
                let second = match arguments.get(1) {
                    Some(argument) => argument.value(scope)?,
                    None => 0,
                };
                call(*function, *kind, first, second)?
            }
            test => u64::from(test.holds(scope)),
        })
    }

    /// Returns whether a test is true.
    pub fn holds(&self, scope: Scope) -> bool {
        match self {
            Code::Not(operand) => !operand.holds(scope),
            Code::And(left, right) => left.holds(scope) && right.holds(scope),
            Code::Or(left, right) => left.holds(scope) || right.holds(scope),
            Code::Compare(kind, relation, left, right) => match (left.value(scope), right.value(scope)) {
                (Some(left), Some(right)) => compare(*kind, *relation, left, right),
                _ => false,
            },
            Code::In(kind, operand, constants) => operand.value(scope).is_some_and(|value| {
                constants.iter().any(|constant| compare(*kind, Relation::Equal, value, *constant))
            }),
            Code::IsNull(operand) => operand.value(scope).is_none(),
            Code::After { later, earlier, less_than } => {
                let [later, earlier] = [later, earlier].map(|slot| scope.bound[*slot as usize]);
                let times = [later, earlier].map(|fact| scope.words.get64(fact + TIME) as i64);
                let numbers = [later, earlier].map(|fact| scope.words.get64(fact + NUMBER));
                (times[0], numbers[0]) > (times[1], numbers[1])
                    && less_than.is_none_or(|less_than| times[0].saturating_sub(times[1]) < less_than)
            }
            Code::Near { slots, less_than } => {
                let times = slots.map(|slot| scope.words.get64(scope.bound[slot as usize] + TIME) as i64);
                times[0].abs_diff(times[1]) < *less_than as u64
            }
            value => value.value(scope) == Some(1),
        }
    }

    /// Returns a test of a boolean field as an equality, which an index can look up. `not` of an optional field stays: it is true
    /// for an undefined field.
    pub fn into_equality(self) -> Code {
        let equal = |field, constant| {
            Code::Compare(Kind::Boolean, Relation::Equal, Box::new(field), Box::new(Code::Constant(constant)))
        };
        match self {
            field @ Code::Field { .. } => equal(field, 1),
            Code::Not(operand) => match *operand {
                field @ Code::Field { bit: 0, .. } => equal(field, 0),
                operand => Code::Not(Box::new(operand)),
            },
            code => code,
        }
    }

    /// Calls `visit` for this expression and all its subexpressions.
    pub fn visit(&self, visit: &mut impl FnMut(&Code)) {
        visit(self);
        match self {
            Code::Constant(_) | Code::Field { .. } | Code::Time(_) | Code::Local(_) => {}
            Code::After { .. } | Code::Near { .. } => {}
            Code::Not(operand) | Code::Negative(_, operand) | Code::ToFloat(operand) => operand.visit(visit),
            Code::In(_, operand, _) | Code::IsNull(operand) => operand.visit(visit),
            Code::And(left, right) | Code::Or(left, right) => {
                left.visit(visit);
                right.visit(visit);
            }
            Code::Compare(_, _, left, right) | Code::Arithmetic(_, _, left, right) => {
                left.visit(visit);
                right.visit(visit);
            }
            Code::If(parts) => parts.iter().for_each(|part| part.visit(visit)),
            Code::Call(_, _, arguments) => arguments.iter().for_each(|argument| argument.visit(visit)),
        }
    }

    /// Returns the slots that the expression reads, one bit each.
    pub fn slots(&self) -> u32 {
        let mut slots = 0;
        self.visit(&mut |code| match code {
            Code::Field { slot, .. } | Code::Time(slot) => slots |= 1 << slot,
            Code::After { later, earlier, .. } => slots |= 1 << later | 1 << earlier,
            Code::Near { slots: [first, second], .. } => slots |= 1 << first | 1 << second,
            _ => {}
        });
        slots
    }

    /// Returns whether the expression reads the value of an aggregate or of a `let`.
    pub fn reads_locals(&self) -> bool {
        let mut reads = false;
        self.visit(&mut |code| reads |= matches!(code, Code::Local(_)));
        reads
    }

    /// Returns the expression with the slot `from` renamed to `to`.
    pub fn moved(&self, from: u8, to: u8) -> Code {
        let slot_of = |slot: u8| if slot == from { to } else { slot };
        let moved = |code: &Code| code.moved(from, to);
        let boxed = |code: &Code| Box::new(moved(code));
        match self {
            Code::Constant(_) | Code::Local(_) => self.clone(),
            Code::Field { slot, offset, bit } => Code::Field { slot: slot_of(*slot), offset: *offset, bit: *bit },
            Code::Time(slot) => Code::Time(slot_of(*slot)),
            Code::After { later, earlier, less_than } => {
                Code::After { later: slot_of(*later), earlier: slot_of(*earlier), less_than: *less_than }
            }
            Code::Near { slots, less_than } => Code::Near { slots: slots.map(slot_of), less_than: *less_than },
            Code::Not(operand) => Code::Not(boxed(operand)),
            Code::And(left, right) => Code::And(boxed(left), boxed(right)),
            Code::Or(left, right) => Code::Or(boxed(left), boxed(right)),
            Code::Compare(kind, relation, left, right) => Code::Compare(*kind, *relation, boxed(left), boxed(right)),
            Code::Arithmetic(kind, operator, left, right) => {
                Code::Arithmetic(*kind, *operator, boxed(left), boxed(right))
            }
            Code::Negative(kind, operand) => Code::Negative(*kind, boxed(operand)),
            Code::ToFloat(operand) => Code::ToFloat(boxed(operand)),
            Code::In(kind, operand, constants) => Code::In(*kind, boxed(operand), constants.clone()),
            Code::IsNull(operand) => Code::IsNull(boxed(operand)),
            Code::If(parts) => Code::If(Box::new(parts.each_ref().map(moved))),
            Code::Call(function, kind, arguments) => {
                Code::Call(*function, *kind, arguments.iter().map(moved).collect())
            }
        }
    }
}

#[inline]
pub(crate) fn compare(kind: Kind, relation: Relation, left: u64, right: u64) -> bool {
    if kind == Kind::Float {
        let (left, right) = (f64::from_bits(left), f64::from_bits(right));
        // Float equality as in expressions of the index.
        let equal = (left - right).abs() < f64::EPSILON;
        return match relation {
            Relation::Equal => equal,
            Relation::Unequal => !equal,
            Relation::Less => left < right,
            Relation::AtMost => left <= right,
            Relation::Greater => left > right,
            Relation::AtLeast => left >= right,
        };
    }
    let (left, right) = (left as i64, right as i64);
    match relation {
        Relation::Equal => left == right,
        Relation::Unequal => left != right,
        Relation::Less => left < right,
        Relation::AtMost => left <= right,
        Relation::Greater => left > right,
        Relation::AtLeast => left >= right,
    }
}

fn arithmetic(kind: Kind, operator: Arithmetic, left: u64, right: u64) -> Option<u64> {
    if kind == Kind::Float {
        let (left, right) = (f64::from_bits(left), f64::from_bits(right));
        let result = match operator {
            Arithmetic::Add => left + right,
            Arithmetic::Subtract => left - right,
            Arithmetic::Multiply => left * right,
            Arithmetic::Divide => left / right,
            Arithmetic::Div => (left / right).floor(),
            Arithmetic::Mod => left - right * (left / right).floor(),
        };
        return result.is_finite().then_some(result.to_bits());
    }
    let (left, right) = (left as i64, right as i64);
    let result = match operator {
        Arithmetic::Add => left.checked_add(right),
        Arithmetic::Subtract => left.checked_sub(right),
        Arithmetic::Multiply => left.checked_mul(right),
        Arithmetic::Divide | Arithmetic::Div => left.checked_div_euclid(right),
        Arithmetic::Mod => left.checked_rem_euclid(right),
    };
    result.map(|result| result as u64)
}

fn call(function: Function, kind: Kind, first: u64, second: u64) -> Option<u64> {
    if kind == Kind::Integer {
        let (first, second) = (first as i64, second as i64);
        let result = match function {
            Function::Abs => first.checked_abs()?,
            Function::Min => first.min(second),
            Function::Max => first.max(second),
            Function::Floor | Function::Sqrt | Function::Atan2 => return None,
        };
        return Some(result as u64);
    }
    let (first, second) = (f64::from_bits(first), f64::from_bits(second));
    let result = match function {
        Function::Abs => first.abs(),
        Function::Min => first.min(second),
        Function::Max => first.max(second),
        Function::Floor => first.floor(),
        Function::Sqrt => first.sqrt(),
        Function::Atan2 => first.atan2(second),
    };
    result.is_finite().then_some(result.to_bits())
}

/// One side of a comparison without arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Operand {
    Constant(u64),
    Field { slot: u8, offset: u32, bit: u32 },
}

impl Operand {
    pub fn of(code: &Code) -> Option<Operand> {
        match *code {
            Code::Constant(constant) => Some(Operand::Constant(constant)),
            Code::Field { slot, offset, bit } => Some(Operand::Field { slot, offset, bit }),
            _ => None,
        }
    }

    /// Returns the operand with the slot `from` renamed to `to`.
    pub fn moved(self, from: u8, to: u8) -> Operand {
        match self {
            Operand::Field { slot, offset, bit } if slot == from => Operand::Field { slot: to, offset, bit },
            other => other,
        }
    }

    #[inline(always)]
    pub fn value(self, words: &Words, bound: &Bound) -> Option<u64> {
        match self {
            Operand::Constant(constant) => Some(constant),
            Operand::Field { slot, offset, bit } => {
                let fact = bound[slot as usize];
                if bit != 0 && words.get(fact + DEFINED) & bit == 0 {
                    return None;
                }
                Some(words.get64(fact + offset))
            }
        }
    }
}

/// A test of bound facts that reads no locals.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Test {
    Compare(Kind, Relation, Operand, Operand),
    Code(Code),
}

impl Test {
    pub fn of(code: &Code) -> Test {
        if let Code::Compare(kind, relation, left, right) = code {
            if let (Some(left), Some(right)) = (Operand::of(left), Operand::of(right)) {
                return Test::Compare(*kind, *relation, left, right);
            }
        }
        Test::Code(code.clone())
    }

    /// Returns the test with the slot `from` renamed to `to`.
    pub fn moved(&self, from: u8, to: u8) -> Test {
        match self {
            Test::Compare(kind, relation, left, right) => {
                Test::Compare(*kind, *relation, left.moved(from, to), right.moved(from, to))
            }
            Test::Code(code) => Test::Code(code.moved(from, to)),
        }
    }

    /// Returns whether the test reads the field at this offset, in any slot.
    pub fn reads(&self, field: u32) -> bool {
        match self {
            Test::Compare(_, _, left, right) => {
                [left, right].iter().any(|operand| matches!(operand, Operand::Field { offset, .. } if *offset == field))
            }
            Test::Code(code) => {
                let mut reads = false;
                code.visit(&mut |code| reads |= matches!(code, Code::Field { offset, .. } if *offset == field));
                reads
            }
        }
    }

    /// Returns the slots that the test reads, one bit each.
    pub fn slots(&self) -> u32 {
        match self {
            Test::Compare(_, _, left, right) => [left, right].into_iter().fold(0, |slots, operand| match operand {
                Operand::Field { slot, .. } => slots | 1 << slot,
                Operand::Constant(_) => slots,
            }),
            Test::Code(code) => code.slots(),
        }
    }

    #[inline(always)]
    pub fn holds(&self, words: &Words, bound: &Bound) -> bool {
        match self {
            Test::Compare(kind, relation, left, right) => match (left.value(words, bound), right.value(words, bound)) {
                (Some(left), Some(right)) => compare(*kind, *relation, left, right),
                _ => false,
            },
            Test::Code(code) => code.holds(Scope { words, bound, locals: &NO_LOCALS }),
        }
    }
}
