//! Generates the WebAssembly functions that execute a bulk instruction in chunks.
//!
//! Such a function takes the operands of the instruction. If they reach beyond a memory or a segment, it executes the
//! original instruction, which traps before it writes. Otherwise it executes one chunk after another, and nothing for
//! length 0. A copy to a higher address of the same memory begins with the last chunk, so that no chunk is overwritten
//! before it is copied.

use wasm_encoder::{BlockType, Encode, Function, InstructionSink, ValType};
use wasmparser::MemoryType;

/// The properties of a memory that an instruction depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct MemoryShape {
    index: u32,
    address: ValType,
    page_size_log2: u32,
}

/// A bulk instruction, with its memories, and the index and length of its segment.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Bulk {
    Fill(MemoryShape),
    /// A copy to the first memory from the second.
    Copy(MemoryShape, MemoryShape),
    Init(MemoryShape, u32, u32),
}

impl MemoryShape {
    pub fn new(index: u32, ty: &MemoryType) -> Self {
        let address = if ty.memory64 { ValType::I64 } else { ValType::I32 };
        Self { index, address, page_size_log2: ty.page_size_log2.unwrap_or(16) }
    }
}

impl Bulk {
    /// Returns the types of the operands. The last operand is the length.
    pub fn params(&self) -> [ValType; 3] {
        match self {
            Self::Fill(memory) => [memory.address, ValType::I32, memory.address],
            Self::Copy(to, from) if to.address == from.address => [to.address; 3],
            Self::Copy(to, from) => [to.address, from.address, ValType::I32],
            Self::Init(memory, ..) => [memory.address, ValType::I32, ValType::I32],
        }
    }

    /// Returns whether the function also executes length 0. It must not for `memory.init`, which traps if its segment
    /// was dropped.
    pub fn may_do_nothing(&self) -> bool {
        !matches!(self, Self::Init(..))
    }

    fn execute(&self, code: &mut InstructionSink) {
        match self {
            Self::Fill(memory) => code.memory_fill(memory.index),
            Self::Copy(to, from) => code.memory_copy(to.index, from.index),
            Self::Init(memory, segment, _) => code.memory_init(memory.index, *segment),
        };
    }
}

const FUNCTION_TYPE: u8 = 0x60;
const NO_RESULTS: u32 = 0;

/// Returns the encoded type of a function with these parameters.
pub fn ty(params: &[ValType; 3]) -> Vec<u8> {
    let mut bytes = vec![FUNCTION_TYPE];
    params.as_slice().len().encode(&mut bytes);
    for param in params {
        param.encode(&mut bytes);
    }
    NO_RESULTS.encode(&mut bytes);
    bytes
}

/// The operands.
const OPERANDS: [u32; 3] = [0, 1, 2];
/// Local variables of 64 bits: target and source of the next chunk, remaining bytes, and length of the chunk.
const TO: u32 = 3;
const FROM: u32 = 4;
const LEFT: u32 = 5;
const LENGTH: u32 = 6;
const VARIABLES: u32 = 4;

/// Returns the function that executes `bulk` in chunks of `chunk` bytes. The length must exceed `chunk`, or be 0 if
/// `bulk` `may_do_nothing`.
pub fn function(bulk: &Bulk, chunk: u32) -> Function {
    let mut function = Function::new([(VARIABLES, ValType::I64)]);
    let mut writer = Writer { code: function.instructions(), bulk, chunk: chunk.into() };
    writer.read_operands();
    writer.trap_if_outside();
    if bulk.may_do_nothing() {
        writer.code.local_get(LEFT).i64_eqz().if_(BlockType::Empty).return_().end();
    }
    if matches!(bulk, Bulk::Copy(to, from) if to.index == from.index) {
        writer.code.local_get(TO).local_get(FROM).i64_gt_u().if_(BlockType::Empty);
        writer.copy_backward();
        writer.code.return_().end();
    }
    writer.execute_forward();
    writer.code.end();
    function
}

struct Writer<'a> {
    code: InstructionSink<'a>,
    bulk: &'a Bulk,
    chunk: i64,
}

impl Writer<'_> {
    fn read_operands(&mut self) {
        for (operand, variable) in OPERANDS.into_iter().zip([TO, FROM, LEFT]) {
            // The value of `memory.fill` is no address.
            if variable == FROM && matches!(self.bulk, Bulk::Fill(_)) {
                continue;
            }
            self.code.local_get(operand);
            if self.bulk.params()[operand as usize] == ValType::I32 {
                self.code.i64_extend_i32_u();
            }
            self.code.local_set(variable);
        }
    }

    fn trap_if_outside(&mut self) {
        match self.bulk {
            Bulk::Fill(memory) => self.is_outside_memory(TO, memory),
            Bulk::Copy(to, from) => {
                self.is_outside_memory(TO, to);
                self.is_outside_memory(FROM, from);
                self.code.i32_or();
            }
            Bulk::Init(memory, _, length) => {
                self.is_outside_memory(TO, memory);
                // If the segment was dropped, the first chunk traps.
                self.is_outside(FROM, |code| _ = code.i64_const((*length).into()));
                self.code.i32_or();
            }
        }
        self.code.if_(BlockType::Empty);
        for operand in OPERANDS {
            self.code.local_get(operand);
        }
        self.bulk.execute(&mut self.code);
        self.code.return_().end();
    }

    fn is_outside_memory(&mut self, start: u32, memory: &MemoryShape) {
        self.is_outside(start, |code| {
            code.memory_size(memory.index);
            if memory.address == ValType::I32 {
                code.i64_extend_i32_u();
            }
            code.i64_const(memory.page_size_log2.into()).i64_shl();
        });
    }

    /// Writes the test whether the remaining bytes, from `start` on, end beyond `size`.
    fn is_outside(&mut self, start: u32, size: impl Fn(&mut InstructionSink)) {
        let code = &mut self.code;
        code.local_get(LEFT);
        size(code);
        code.i64_gt_u();
        code.local_get(start);
        size(code);
        code.local_get(LEFT).i64_sub().i64_gt_u().i32_or();
    }

    fn execute_forward(&mut self) {
        self.code.loop_(BlockType::Empty);
        self.measure_chunk();
        self.execute_chunk(|code, address| _ = code.local_get(address));
        for variable in [TO, FROM] {
            self.code.local_get(variable).local_get(LENGTH).i64_add().local_set(variable);
        }
        self.shorten();
        self.repeat();
    }

    fn copy_backward(&mut self) {
        self.code.loop_(BlockType::Empty);
        self.measure_chunk();
        self.shorten();
        self.execute_chunk(|code, address| _ = code.local_get(address).local_get(LEFT).i64_add());
        self.repeat();
    }

    fn measure_chunk(&mut self) {
        let code = &mut self.code;
        code.local_get(LEFT).i64_const(self.chunk);
        code.local_get(LEFT).i64_const(self.chunk).i64_lt_u();
        code.select().local_set(LENGTH);
    }

    fn execute_chunk(&mut self, address: impl Fn(&mut InstructionSink, u32)) {
        let params = self.bulk.params();
        let narrow = |code: &mut InstructionSink, operand: usize| {
            if params[operand] == ValType::I32 {
                code.i32_wrap_i64();
            }
        };
        address(&mut self.code, TO);
        narrow(&mut self.code, 0);
        if matches!(self.bulk, Bulk::Fill(_)) {
            self.code.local_get(OPERANDS[1]);
        } else {
            address(&mut self.code, FROM);
            narrow(&mut self.code, 1);
        }
        self.code.local_get(LENGTH);
        narrow(&mut self.code, 2);
        self.bulk.execute(&mut self.code);
    }

    fn shorten(&mut self) {
        self.code.local_get(LEFT).local_get(LENGTH).i64_sub().local_set(LEFT);
    }

    fn repeat(&mut self) {
        self.code.local_get(LEFT).i64_const(0).i64_ne().br_if(0).end();
    }
}
