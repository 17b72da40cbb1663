//! Rewrites the code of a module, so that it yields in time wherever it runs.
//!
//! wasmtime charges a unit of fuel for each byte of `memory.fill`, `memory.copy` and `memory.init`, but executes each
//! without yielding: 1 GiB takes seconds. So this replaces these instructions. If the length exceeds `MAX_BULK_BYTES`,
//! a function that is added to the module executes it in chunks (`chunks`), with a check of the fuel before each chunk.
//! An instruction of variable length costs five to seven units more than before. An instruction whose length cannot
//! exceed `MAX_BULK_BYTES` stays unchanged, and so do instructions on tables, because `memory::limits` bounds tables.
//!
//! A fill or copy of length 0 costs no fuel, but may take 80 nanoseconds on a page that was never written. The added
//! function returns at once instead.
//!
//! `fuel_checks` finds where to insert charges and checks of fuel, for which `recursion` finds the recursive functions.
//! All other bytes but `nop`s are copied, so indexes, exports and names stay the same.

mod chunks;
mod fuel_checks;
mod recursion;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use wasm_encoder::{BlockType, CodeSection, Encode, Instruction, Module, RawSection, ValType};
use wasmparser::{
    BinaryReader, BinaryReaderError, CompositeInnerType, DataKind, FunctionBody, MemoryType, Operator, Parser, Payload,
    TableInit, TypeRef, TypeSectionReader,
};

use chunks::Bulk;
use fuel_checks::{Arity, Path, Types};
use recursion::Calls;

/// The most bytes that are filled or copied without a check of the fuel: 0.05 milliseconds in fresh memory.
pub const MAX_BULK_BYTES: u32 = 64 << 10;

/// The first bytes of instructions.
const BLOCK: u8 = 0x02;
const LOOP: u8 = 0x03;

type Result<T, E = BinaryReaderError> = std::result::Result<T, E>;

/// Returns the rewritten bytes of a valid module, for the compiler.
pub fn with_checks(wasm: &[u8]) -> Result<Cow<'_, [u8]>> {
    let mut outline = Outline::read(wasm)?;
    outline.recursive = outline.calls(wasm)?.recursive();
    let outline = outline;
    let mut helpers = Helpers { first: outline.functions.len() as u32, ..Helpers::default() };
    let mut code = CodeSection::new();
    let mut is_rewritten = false;
    for (index, body) in outline.bodies.iter().enumerate() {
        is_rewritten |= outline.rewrite(wasm, outline.imported + index, body, &mut helpers, &mut code)?;
    }
    if !is_rewritten {
        return Ok(Cow::Borrowed(wasm));
    }
    for bulk in &helpers.list {
        code.function(&chunks::function(bulk, MAX_BULK_BYTES));
    }
    outline.assemble(wasm, &helpers, &code).map(Cow::Owned)
}

/// The facts about a module that rewriting needs.
#[derive(Default)]
struct Outline<'a> {
    /// The parameters and results of each type: none for a type of another kind.
    types: Vec<Arity>,
    /// The type of each function, imported functions first.
    functions: Vec<u32>,
    imported: usize,
    memories: Vec<MemoryType>,
    /// The bytes of each data segment: 0 for an active one, which is dropped before code runs.
    data: Vec<u32>,
    bodies: Vec<FunctionBody<'a>>,
    /// Whether each function may be part of a recursion, imported functions first.
    recursive: Vec<bool>,
}

impl<'a> Outline<'a> {
    fn read(wasm: &'a [u8]) -> Result<Self> {
        let mut outline = Self::default();
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::TypeSection(types) => outline.read_types(types)?,
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        match import?.ty {
                            TypeRef::Func(ty) | TypeRef::FuncExact(ty) => outline.functions.push(ty),
                            TypeRef::Memory(ty) => outline.memories.push(ty),
                            _ => {}
                        }
                    }
                    outline.imported = outline.functions.len();
                }
                Payload::FunctionSection(functions) => {
                    for ty in functions {
                        outline.functions.push(ty?);
                    }
                }
                Payload::MemorySection(memories) => {
                    for ty in memories {
                        outline.memories.push(ty?);
                    }
                }
                Payload::DataSection(segments) => {
                    for segment in segments {
                        let segment = segment?;
                        let is_passive = matches!(segment.kind, DataKind::Passive);
                        outline.data.push(if is_passive { segment.data.len() as u32 } else { 0 });
                    }
                }
                Payload::CodeSectionEntry(body) => outline.bodies.push(body),
                _ => {}
            }
        }
        Ok(outline)
    }

    /// Returns the call graph.
    fn calls(&self, wasm: &[u8]) -> Result<Calls> {
        let mut calls = Calls::new(self.functions.len());
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::ElementSection(elements) => calls.note_elements(elements)?,
                Payload::GlobalSection(globals) => {
                    for global in globals {
                        calls.note_constant(&global?.init_expr)?;
                    }
                }
                Payload::TableSection(tables) => {
                    for table in tables {
                        if let TableInit::Expr(constant) = &table?.init {
                            calls.note_constant(constant)?;
                        }
                    }
                }
                _ => {}
            }
        }
        for (index, body) in self.bodies.iter().enumerate() {
            let function = self.imported + index;
            calls.measure(function, body.range().len());
            for operator in body.get_operators_reader()? {
                calls.note(function, &operator?);
            }
        }
        Ok(calls)
    }

    fn read_types(&mut self, types: TypeSectionReader) -> Result<()> {
        for group in types {
            for ty in group?.into_types() {
                self.types.push(match ty.composite_type.inner {
                    CompositeInnerType::Func(function) => {
                        Arity { params: function.params().len() as u32, results: function.results().len() as u32 }
                    }
                    _ => Arity::default(),
                });
            }
        }
        Ok(())
    }

    /// Appends the body of a function to `code`. Returns whether it was rewritten.
    fn rewrite(
        &self,
        wasm: &[u8],
        function: usize,
        body: &FunctionBody,
        helpers: &mut Helpers,
        code: &mut CodeSection,
    ) -> Result<bool> {
        let arity = self.of_function(function as u32);
        let mut lengths = Lengths { first: arity.params + declared(body)?, types: Vec::new() };
        let mut operators = body.get_operators_reader()?;
        let start = operators.original_position();
        let mut pieces = Pieces { wasm, copied: start, code: Vec::new() };
        let mut path = Path::new(self, arity, self.recursive[function]);
        let mut repeats = fuel_checks::loops(body)?.into_iter();
        let mut constant = None;
        while !operators.eof() {
            let (mut operator, at) = operators.read_with_offset()?;
            let end = operators.original_position();
            if let Operator::Loop { blockty } = operator {
                if repeats.next() == Some(false) {
                    operator = Operator::Block { blockty };
                }
            }
            let before = path.pass(&operator);
            if before.check {
                Instruction::Loop(BlockType::Empty).encode(pieces.insert(at));
                Instruction::End.encode(pieces.insert(at));
            }
            for _ in 0..before.charges {
                Instruction::Nop.encode(pieces.insert(at));
            }
            if let Some(bulk) = self.bulk(&operator, constant) {
                write_chunked(bulk, &wasm[at..end], self.types.len() as u32, helpers, &mut lengths, pieces.insert(at));
                pieces.copied = end;
            } else if wasm[at] == LOOP && matches!(operator, Operator::Block { .. }) {
                pieces.insert(at).push(BLOCK);
                pieces.copied = at + 1;
            } else if let Operator::Nop = operator {
                pieces.insert(at);
                pieces.copied = end;
            }
            constant = match operator {
                Operator::I32Const { value } => Some(u64::from(value as u32)),
                Operator::I64Const { value } => Some(value as u64),
                _ => None,
            };
        }
        if pieces.copied == start && pieces.code.is_empty() {
            code.raw(&wasm[body.range()]);
            return Ok(false);
        }
        let mut rewritten = locals_and(&wasm[body.range().start..start], &lengths.types)?;
        rewritten.extend_from_slice(pieces.insert(body.range().end));
        code.raw(&rewritten);
        Ok(true)
    }

    /// Returns the bulk instruction of an operator, if its length may exceed `MAX_BULK_BYTES` or be 0. `constant` is
    /// the length, if the previous operator is a constant.
    fn bulk(&self, operator: &Operator, constant: Option<u64>) -> Option<Bulk> {
        if constant.is_some_and(|length| (1..=u64::from(MAX_BULK_BYTES)).contains(&length)) {
            return None;
        }
        let memory = |index: u32| chunks::MemoryShape::new(index, &self.memories[index as usize]);
        match *operator {
            Operator::MemoryFill { mem } => Some(Bulk::Fill(memory(mem))),
            Operator::MemoryCopy { dst_mem, src_mem } => Some(Bulk::Copy(memory(dst_mem), memory(src_mem))),
            Operator::MemoryInit { data_index, mem } => {
                let length = self.data.get(data_index as usize).copied().unwrap_or(0);
                (length > MAX_BULK_BYTES).then(|| Bulk::Init(memory(mem), data_index, length))
            }
            _ => None,
        }
    }

    /// Returns the module with this code, and with the new types and functions after its own.
    fn assemble(&self, wasm: &[u8], helpers: &Helpers, code: &CodeSection) -> Result<Vec<u8>> {
        let mut module = Module::new();
        for payload in Parser::new(0).parse_all(wasm) {
            let payload = payload?;
            match &payload {
                Payload::TypeSection(types) => {
                    let new: Vec<_> = helpers.types.iter().map(chunks::ty).collect();
                    module.section(&RawSection { id: 1, data: &with_more(wasm, types.range(), &new)? });
                }
                Payload::FunctionSection(functions) => {
                    let new = helpers.functions(self.types.len() as u32);
                    module.section(&RawSection { id: 3, data: &with_more(wasm, functions.range(), &new)? });
                }
                Payload::CodeSectionStart { .. } => {
                    module.section(code);
                }
                // It refers to positions in the code, which have changed.
                Payload::CustomSection(custom) if custom.name().starts_with("metadata.code.") => {}
                _ => {
                    if let Some((id, range)) = payload.as_section() {
                        module.section(&RawSection { id, data: &wasm[range] });
                    }
                }
            }
        }
        Ok(module.finish())
    }
}

impl Types for Outline<'_> {
    fn of_type(&self, index: u32) -> Arity {
        self.types.get(index as usize).copied().unwrap_or_default()
    }

    fn of_function(&self, index: u32) -> Arity {
        self.functions.get(index as usize).map_or_else(Arity::default, |ty| self.of_type(*ty))
    }
}

/// Returns the number of local variables that a function declares.
fn declared(body: &FunctionBody) -> Result<u32> {
    let mut count = 0;
    for local in body.get_locals_reader()? {
        count += local?.0;
    }
    Ok(count)
}

/// The rewritten code of a function, up to a position.
struct Pieces<'a> {
    wasm: &'a [u8],
    /// The position in `wasm` up to which the code is copied.
    copied: usize,
    code: Vec<u8>,
}

impl Pieces<'_> {
    /// Copies the code up to a position. Returns the new code, to append to.
    fn insert(&mut self, position: usize) -> &mut Vec<u8> {
        self.code.extend_from_slice(&self.wasm[self.copied..position]);
        self.copied = position;
        &mut self.code
    }
}

/// The added functions, which execute bulk instructions in chunks.
#[derive(Default)]
struct Helpers {
    /// The index of the first one.
    first: u32,
    list: Vec<Bulk>,
    positions: HashMap<Bulk, u32>,
    /// Their distinct parameter types.
    types: Vec<[ValType; 3]>,
}

impl Helpers {
    /// Returns the index of the function for `bulk`, and the index of its type in `types`.
    fn find(&mut self, bulk: &Bulk) -> (u32, u32) {
        let function = *self.positions.entry(bulk.clone()).or_insert_with(|| {
            self.list.push(bulk.clone());
            self.list.len() as u32 - 1
        });
        let ty = position_or_push(&mut self.types, bulk.params());
        (self.first + function, ty)
    }

    /// Returns the encoded type indexes of the functions. The module has `types` types of its own.
    fn functions(&self, types: u32) -> Vec<Vec<u8>> {
        let index = |bulk: &Bulk| self.types.iter().position(|params| *params == bulk.params()).unwrap_or(0) as u32;
        self.list.iter().map(|bulk| encoded(&(types + index(bulk)))).collect()
    }
}

/// Local variables of a function for the lengths of bulk instructions, one for each type.
struct Lengths {
    /// The index of the first one.
    first: u32,
    types: Vec<ValType>,
}

/// Writes a branch: a short instruction executes as before, and a long one calls the added function. Length 0 counts as
/// long if `may_do_nothing`: the comparison is of the length less one, unsigned.
fn write_chunked(
    bulk: Bulk,
    original: &[u8],
    types: u32,
    helpers: &mut Helpers,
    lengths: &mut Lengths,
    code: &mut Vec<u8>,
) {
    let (function, ty) = helpers.find(&bulk);
    let length = bulk.params()[2];
    let local = lengths.first + position_or_push(&mut lengths.types, length);
    let (one, less, part, is_long, is_longer) = match length {
        ValType::I64 => (
            Instruction::I64Const(1),
            Instruction::I64Sub,
            Instruction::I64Const(MAX_BULK_BYTES.into()),
            Instruction::I64GeU,
            Instruction::I64GtU,
        ),
        _ => (
            Instruction::I32Const(1),
            Instruction::I32Sub,
            Instruction::I32Const(MAX_BULK_BYTES as i32),
            Instruction::I32GeU,
            Instruction::I32GtU,
        ),
    };
    let mut write = |instructions: &[Instruction]| instructions.iter().for_each(|instruction| instruction.encode(code));
    write(&[Instruction::LocalTee(local), Instruction::LocalGet(local)]);
    if bulk.may_do_nothing() {
        write(&[one, less, part, is_long]);
    } else {
        write(&[part, is_longer]);
    }
    let call = [Instruction::If(BlockType::FunctionType(types + ty)), Instruction::Call(function), Instruction::Else];
    write(&call);
    code.extend_from_slice(original);
    Instruction::End.encode(code);
}

/// Appends a local variable of each of `types` to the declarations of a function.
fn locals_and(declarations: &[u8], types: &[ValType]) -> Result<Vec<u8>> {
    let new: Vec<Vec<u8>> = types.iter().map(|ty| [encoded(&1_u32), encoded(ty)].concat()).collect();
    with_more(declarations, 0..declarations.len(), &new)
}

/// Appends elements to the encoded vector at `range`.
fn with_more(wasm: &[u8], range: Range<usize>, new: &[Vec<u8>]) -> Result<Vec<u8>> {
    let mut reader = BinaryReader::new(&wasm[range.clone()], range.start);
    let count = reader.read_var_u32()?;
    let mut vector = encoded(&(count + new.len() as u32));
    vector.extend_from_slice(&wasm[reader.original_position()..range.end]);
    vector.extend(new.iter().flatten());
    Ok(vector)
}

fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    bytes
}

fn position_or_push<T: PartialEq + Copy>(list: &mut Vec<T>, value: T) -> u32 {
    let position = list.iter().position(|known| *known == value).unwrap_or_else(|| {
        list.push(value);
        list.len() - 1
    });
    position as u32
}
