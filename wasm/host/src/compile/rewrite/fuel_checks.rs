//! Finds where a function must charge and check fuel, beyond what wasmtime does.
//!
//! wasmtime checks the fuel at the entry of a function and at each loop header. Between two checks a thread executes a
//! whole path, and a function without a loop may have 90 kilobytes of code. So this inserts a check before a path has
//! used `MAX_UNCHECKED_FUEL`. wasmtime does not check at returns either, and a recursion ends with thousands of
//! returns. So in a recursive function (`recursion`) a check follows within `MAX_FUEL_AFTER_CALL` units of each call. A
//! check is an empty loop, and costs no fuel.
//!
//! Loops of the module that no branch repeats become blocks, because their checks cost no fuel either: 20,000 empty
//! loops took 0.2 milliseconds.
//!
//! Blocks cost no fuel, but some compile to a jump, and 30,000 of them take a microsecond. So each run of
//! `MAX_FREE_INSTRUCTIONS` free instructions is charged once.
//!
//! wasmtime charges one unit for a branch or a call, however many values it moves. So this charges another unit for
//! each value, in steps of `NOP_FUEL` values. Compilers generate branches with one value at most.

use wasmparser::{BinaryReaderError, BlockType, Catch, FunctionBody, Operator};
use wasmtime::OperatorCost;

use crate::compile::costs::{self, NOP_FUEL};

/// The most fuel of a path between two checks: about 10 microseconds.
const MAX_UNCHECKED_FUEL: u64 = 20_000;
/// The most fuel of a path after a call in a recursive function. The stack has room for 30,000 calls.
const MAX_FUEL_AFTER_CALL: u64 = 128;

/// The most consecutive instructions without a charge.
const MAX_FREE_INSTRUCTIONS: u32 = 100;

/// The number of parameters and of results.
#[derive(Clone, Copy, Default)]
pub struct Arity {
    pub params: u32,
    pub results: u32,
}

/// Returns for each `loop` of a function whether a branch repeats it.
pub fn loops(body: &FunctionBody) -> Result<Vec<bool>, BinaryReaderError> {
    let mut repeats = Vec::new();
    // The blocks around the operator: the number of a loop, or none.
    let mut blocks = vec![None];
    for operator in body.get_operators_reader()? {
        let operator = operator?;
        each_label(&operator, |depth| {
            let block = blocks.len().checked_sub(1 + depth as usize).and_then(|index| blocks[index]);
            if let Some(number) = block {
                repeats[number] = true;
            }
        });
        match operator {
            Operator::Loop { .. } => {
                blocks.push(Some(repeats.len()));
                repeats.push(false);
            }
            Operator::Block { .. } | Operator::If { .. } | Operator::TryTable { .. } => blocks.push(None),
            Operator::End => _ = blocks.pop(),
            _ => {}
        }
    }
    Ok(repeats)
}

/// Calls `visit` with each label that an operator branches to, relative to the blocks around it.
fn each_label(operator: &Operator, mut visit: impl FnMut(u32)) {
    match operator {
        Operator::Br { relative_depth }
        | Operator::BrIf { relative_depth }
        | Operator::BrOnNull { relative_depth }
        | Operator::BrOnNonNull { relative_depth }
        | Operator::BrOnCast { relative_depth, .. }
        | Operator::BrOnCastFail { relative_depth, .. } => visit(*relative_depth),
        Operator::BrTable { targets } => {
            visit(targets.default());
            targets.targets().flatten().for_each(visit);
        }
        Operator::TryTable { try_table } => {
            for catch in &try_table.catches {
                match catch {
                    Catch::One { label, .. } | Catch::OneRef { label, .. } => visit(*label),
                    Catch::All { label } | Catch::AllRef { label } => visit(*label),
                }
            }
        }
        _ => {}
    }
}

/// The facts about a module that its paths depend on.
pub trait Types {
    fn of_type(&self, index: u32) -> Arity;
    fn of_function(&self, index: u32) -> Arity;
}

/// The most expensive path to an operator since the last check.
pub struct Path<'a, T> {
    types: &'a T,
    costs: OperatorCost,
    /// The most fuel of a path after a call until the next check.
    after_call: u64,
    taken: u64,
    /// The number of consecutive free operators before this one.
    free: u32,
    /// The blocks around the operator. The first one is the function.
    blocks: Vec<Block>,
}

struct Block {
    is_loop: bool,
    arity: Arity,
    /// The most fuel of a path that leaves the block by a branch.
    end: u64,
    /// For the first arm of an `if`: the fuel at its start, with which the other arm begins.
    other_arm: u64,
}

/// The code to insert before an operator: the number of `nop`s, and whether to check the fuel.
pub struct Before {
    pub charges: u32,
    pub check: bool,
}

impl<'a, T: Types> Path<'a, T> {
    pub fn new(types: &'a T, function: Arity, is_recursive: bool) -> Self {
        let whole = Block { is_loop: false, arity: function, end: 0, other_arm: 0 };
        let after_call = if is_recursive { MAX_FUEL_AFTER_CALL } else { MAX_UNCHECKED_FUEL };
        Self { types, costs: costs::costs(), after_call, taken: 0, free: 0, blocks: vec![whole] }
    }

    /// Passes the next operator of the function. Returns the code to insert before it.
    pub fn pass(&mut self, operator: &Operator) -> Before {
        let cost = self.costs.cost(operator) as u64;
        self.free = if cost == 0 { self.free + 1 } else { 0 };
        let charges = self.moved(operator) / u32::from(NOP_FUEL) + u32::from(self.free == MAX_FREE_INSTRUCTIONS);
        self.free %= MAX_FREE_INSTRUCTIONS;
        let fuel = cost + u64::from(charges) * u64::from(NOP_FUEL);
        let check = self.taken + fuel > MAX_UNCHECKED_FUEL && !matches!(operator, Operator::Loop { .. });
        if check {
            self.taken = 0;
        }
        self.taken += fuel;
        self.follow(operator);
        Before { charges, check }
    }

    /// Returns the number of values that an operator moves, each counted at one operator only.
    fn moved(&self, operator: &Operator) -> u32 {
        match operator {
            Operator::Br { relative_depth } | Operator::BrIf { relative_depth } => self.label(*relative_depth),
            Operator::BrTable { targets } => self.label(targets.default()),
            Operator::Loop { blockty } | Operator::If { blockty } => self.arity(blockty).params,
            Operator::Else | Operator::End => self.blocks.last().map_or(0, |block| block.arity.results),
            Operator::Return => self.blocks.first().map_or(0, |function| function.arity.results),
            Operator::Call { function_index } => self.types.of_function(*function_index).results,
            Operator::CallIndirect { type_index, .. } | Operator::CallRef { type_index } => {
                self.types.of_type(*type_index).results
            }
            _ => 0,
        }
    }

    fn follow(&mut self, operator: &Operator) {
        each_label(operator, |depth| self.branch(depth));
        match operator {
            Operator::Block { blockty }
            | Operator::TryTable { try_table: wasmparser::TryTable { ty: blockty, .. } } => {
                self.enter(false, blockty, 0);
            }
            Operator::Loop { blockty } => {
                self.taken = 0;
                self.enter(true, blockty, 0);
            }
            Operator::If { blockty } => self.enter(false, blockty, self.taken),
            Operator::Else => {
                if let Some(block) = self.blocks.last_mut() {
                    block.end = block.end.max(self.taken);
                    self.taken = std::mem::take(&mut block.other_arm);
                }
            }
            Operator::End => {
                if let Some(block) = self.blocks.pop() {
                    self.taken = self.taken.max(block.end).max(block.other_arm);
                }
            }
            // No path goes on here.
            Operator::Br { .. } | Operator::BrTable { .. } | Operator::Return | Operator::Unreachable => self.taken = 0,
            Operator::Call { .. } | Operator::CallIndirect { .. } | Operator::CallRef { .. } => {
                self.taken = self.taken.max(MAX_UNCHECKED_FUEL - self.after_call);
            }
            _ => {}
        }
    }

    fn enter(&mut self, is_loop: bool, ty: &BlockType, other_arm: u64) {
        let arity = self.arity(ty);
        self.blocks.push(Block { is_loop, arity, end: 0, other_arm });
    }

    fn branch(&mut self, depth: u32) {
        let taken = self.taken;
        if let Some(block) = self.at(depth).and_then(|index| self.blocks.get_mut(index)) {
            block.end = block.end.max(if block.is_loop { 0 } else { taken });
        }
    }

    /// Returns the number of values that a branch to a label moves.
    fn label(&self, depth: u32) -> u32 {
        let block = self.at(depth).and_then(|index| self.blocks.get(index));
        block.map_or(0, |block| if block.is_loop { block.arity.params } else { block.arity.results })
    }

    fn at(&self, depth: u32) -> Option<usize> {
        self.blocks.len().checked_sub(1 + depth as usize)
    }

    fn arity(&self, ty: &BlockType) -> Arity {
        match ty {
            BlockType::Empty => Arity::default(),
            BlockType::Type(_) => Arity { params: 0, results: 1 },
            BlockType::FuncType(index) => self.types.of_type(*index),
        }
    }
}
