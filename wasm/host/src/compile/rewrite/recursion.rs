//! Finds the functions of a module that may return very often in a row: those of a recursion.
//!
//! wasmtime checks the fuel where a function begins, and not where it returns. Without a recursion each function returns at most
//! once between two beginnings, so the code on the way is as short as one chain of calls. `fuel_checks` gives all other functions
//! checks after their calls.

use wasmparser::{BinaryReaderError, ConstExpr, ElementItems, ElementSectionReader, Operator};

/// The most bytes of code on a chain of calls without a recursion: an instruction takes a byte at least, and a unit of fuel. So
/// returning through it takes 0.2 milliseconds at most. In a module with a longer chain all functions count as recursive.
const MAX_CHAIN_BYTES: u64 = 1_000_000;

/// The calls of a module's functions. An indirect call may reach every function with a reference, whatever its type, because two
/// types may be equal.
#[derive(Default)]
pub struct Calls {
    /// The callees of each function, and its bytes. Node 0 stands for indirect calls, and node n + 1 for the function n.
    callees: Vec<Vec<u32>>,
    bytes: Vec<u64>,
}

/// The node of all indirect calls.
const INDIRECT: u32 = 0;

impl Calls {
    /// Returns the calls of as many functions, imported functions first.
    pub fn new(functions: usize) -> Self {
        Self { callees: vec![Vec::new(); functions + 1], bytes: vec![0; functions + 1] }
    }

    /// Notes the bytes of the code of `function`.
    pub fn measure(&mut self, function: usize, bytes: usize) {
        self.bytes[function + 1] = bytes as u64;
    }

    /// Notes what an operator of `function` calls, or refers to.
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

    /// Notes the functions to which a constant expression refers.
    pub fn note_constant(&mut self, constant: &ConstExpr) -> Result<(), BinaryReaderError> {
        for operator in constant.get_operators_reader() {
            if let Operator::RefFunc { function_index } = operator? {
                self.refer(function_index);
            }
        }
        Ok(())
    }

    /// Notes the functions in the elements of tables.
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
        // A function that calls none of a recursion is peeled off from below, and one that none of a recursion calls from above.
        let below = self.peel(&self.callees, &callers);
        let above = self.peel(&callers, &self.callees);
        let longest = |chains: &[Option<u64>]| chains.iter().flatten().copied().max().unwrap_or(0);
        if longest(&below) + longest(&above) > MAX_CHAIN_BYTES {
            return vec![true; self.callees.len() - 1];
        }
        below.iter().zip(&above).skip(1).map(|(below, above)| below.is_none() && above.is_none()).collect()
    }

    /// Returns the bytes of the longest chain from each node along `edges`, or `None` for a node from which a cycle is reached.
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
