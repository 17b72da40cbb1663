//! Finds the recursive functions of a module, whose returns need checks of the fuel.
//!
//! wasmtime checks the fuel at the entry of a function, and not at its return. Without recursion, the code of
//! consecutive returns is that of one chain of calls. A recursion may return thousands of times in a row, so
//! `fuel_checks` inserts checks after the calls of its functions. A function counts as recursive if it reaches a cycle
//! of the call graph and a cycle reaches it. Kahn's topological sort, in both directions, finds the others.

use wasmparser::{BinaryReaderError, ConstExpr, ElementItems, ElementSectionReader, Operator};

/// The most bytes of code on a chain of calls that is not recursive. Returning through it takes 0.2 milliseconds at
/// most, because an instruction has at least a byte. In a module with a longer chain all functions count as recursive.
const MAX_CHAIN_BYTES: u64 = 1_000_000;

/// The call graph of a module. An indirect call may reach every referenced function of any type, because two types may
/// be equal.
#[derive(Default)]
pub struct Calls {
    /// The callees of each function, and its bytes. Node 0 stands for indirect calls, and node n + 1 for the function n.
    callees: Vec<Vec<u32>>,
    bytes: Vec<u64>,
}

/// The node of all indirect calls.
const INDIRECT: u32 = 0;

impl Calls {
    /// Returns an empty call graph. Imported functions come first.
    pub fn new(functions: usize) -> Self {
        Self { callees: vec![Vec::new(); functions + 1], bytes: vec![0; functions + 1] }
    }

    /// Sets the bytes of the code of `function`.
    pub fn measure(&mut self, function: usize, bytes: usize) {
        self.bytes[function + 1] = bytes as u64;
    }

    /// Adds the call or reference of an operator of `function`.
    pub fn note(&mut self, function: usize, operator: &Operator) {
        match operator {
            Operator::Call { function_index } | Operator::ReturnCall { function_index } => {
                self.callees[function + 1].push(function_index + 1);
            }
            Operator::CallIndirect { .. }
            | Operator::ReturnCallIndirect { .. }
            | Operator::CallRef { .. }
            | Operator::ReturnCallRef { .. } => self.callees[function + 1].push(INDIRECT),
            Operator::RefFunc { function_index } => self.refer(*function_index),
            _ => {}
        }
    }

    /// Adds the references of a constant expression.
    pub fn note_constant(&mut self, constant: &ConstExpr) -> Result<(), BinaryReaderError> {
        for operator in constant.get_operators_reader() {
            if let Operator::RefFunc { function_index } = operator? {
                self.refer(function_index);
            }
        }
        Ok(())
    }

    /// Adds the references in the elements of tables.
    pub fn note_elements(&mut self, elements: ElementSectionReader) -> Result<(), BinaryReaderError> {
        for element in elements {
            match element?.items {
                ElementItems::Functions(functions) => {
                    for function in functions {
                        self.refer(function?);
                    }
                }
                ElementItems::Expressions(_, constants) => {
                    for constant in constants {
                        self.note_constant(&constant?)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn refer(&mut self, function: u32) {
        self.callees[INDIRECT as usize].push(function + 1);
    }

    /// Returns for each function whether it may be part of a recursion.
    pub fn recursive(mut self) -> Vec<bool> {
        for callees in &mut self.callees {
            callees.sort_unstable();
            callees.dedup();
        }
        let mut callers = vec![Vec::new(); self.callees.len()];
        for (caller, callees) in self.callees.iter().enumerate() {
            callees.iter().for_each(|callee| callers[*callee as usize].push(caller as u32));
        }
        // Peel off the functions that reach no cycle, and those that no cycle reaches.
        let below = self.peel(&self.callees, &callers);
        let above = self.peel(&callers, &self.callees);
        let longest = |chains: &[Option<u64>]| chains.iter().flatten().copied().max().unwrap_or(0);
        if longest(&below) + longest(&above) > MAX_CHAIN_BYTES {
            return vec![true; self.callees.len() - 1];
        }
        below.iter().zip(&above).skip(1).map(|(below, above)| below.is_none() && above.is_none()).collect()
    }

    /// Returns the bytes of the longest chain from each node along `edges`, or `None` if the node reaches a cycle.
    fn peel(&self, edges: &[Vec<u32>], back: &[Vec<u32>]) -> Vec<Option<u64>> {
        let mut open: Vec<usize> = edges.iter().map(Vec::len).collect();
        let mut chains = vec![None; edges.len()];
        let mut done: Vec<usize> = (0..edges.len()).filter(|node| open[*node] == 0).collect();
        while let Some(node) = done.pop() {
            let longest = edges[node].iter().filter_map(|next| chains[*next as usize]).max().unwrap_or(0);
            chains[node] = Some(longest + self.bytes[node]);
            for &before in &back[node] {
                open[before as usize] -= 1;
                if open[before as usize] == 0 {
                    done.push(before as usize);
                }
            }
        }
        chains
    }
}
