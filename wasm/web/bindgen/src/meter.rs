//! Rewrites a module so that JavaScript can end a call, and undo it.
//!
//! Each iteration of a loop takes a step from a counter. At zero the module calls its export `steps_are_spent`, which returns as many
//! new steps, or throws. A loop that no branch repeats counts too. A path without loops is bounded by the code, and a recursion by the
//! stack. Loops of the allocator do not count: their iterations depend on what was allocated before, and equal searches make equal steps.
//!
//! The memory grows within a limit. Its size is a counter, not the size that WebAssembly tells, since WebAssembly cannot make a
//! memory smaller: after JavaScript restored a smaller size, the module grows into the pages that are there.
//!
//! JavaScript reads and sets five exported globals: `steps`, `pages` (the size in pages), `max_pages`, and the pointers of two stacks, which a
//! thrown exception leaves where they are: `stack` in memory, and `references` in the table of JavaScript's objects.

use std::collections::HashSet;

use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, Encode, ExportKind, Function, GlobalType, Instruction, Module, RawSection,
    ValType,
};
use wasmparser::{
    BinaryReader, BinaryReaderError, ExternalKind, FunctionBody, KnownCustom, Name, Operator, Parser, Payload, TypeRef,
};

/// The export that is called when the steps are spent.
const SPENT: &str = "steps_are_spent";
/// Parts of the names of the allocator's functions.
const ALLOCATOR: [&str; 2] = ["dlmalloc", "be_tree_module"];
/// The pages of a memory that 32 bits address.
const MOST_PAGES: i32 = 1 << 16;
/// The global of the stack pointer, the first one that LLVM writes.
const STACK: u32 = 0;

type Result<T, E = BinaryReaderError> = std::result::Result<T, E>;

/// Where the rewritten module has its additions.
struct Additions {
    /// The globals.
    steps: u32,
    pages: u32,
    max_pages: u32,
    /// The global that `wasm_bindgen` adds: the pointer of the stack of references.
    references: u32,
    /// The functions: the export that returns steps, and the added ones.
    spent: u32,
    refill: u32,
    grow: u32,
}

/// Returns the rewritten bytes of a module of LLVM, which has one memory.
pub fn metered(wasm: &[u8]) -> Result<Vec<u8>> {
    let (mut types, mut functions, mut globals) = (0, 0, 0);
    let (mut pages, mut spent) = (0, None);
    let mut bodies = Vec::new();
    let mut uncounted = HashSet::new();
    for payload in Parser::new(0).parse_all(wasm) {
        match payload? {
            Payload::TypeSection(section) => types = section.count(),
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    if let TypeRef::Func(_) = import?.ty {
                        functions += 1;
                    }
                }
            }
            Payload::FunctionSection(section) => functions += section.count(),
            Payload::MemorySection(memories) => {
                for memory in memories {
                    pages = memory?.initial;
                }
            }
            Payload::GlobalSection(section) => {
                globals = section.count();
                let pointers =
                    section.into_iter().map(|global| Ok(is_pointer(global?.ty))).collect::<Result<Vec<_>>>()?;
                let [true, between @ .., true] = &pointers[..] else {
                    panic!("the first and the last global are stack pointers")
                };
                assert!(!between.contains(&true), "no other global is a stack pointer");
            }
            Payload::ExportSection(exports) => {
                for export in exports {
                    let export = export?;
                    if export.name == SPENT && export.kind == ExternalKind::Func {
                        spent = Some(export.index);
                    }
                }
            }
            Payload::CodeSectionEntry(body) => bodies.push(body),
            Payload::CustomSection(section) => {
                if let KnownCustom::Name(names) = section.as_known() {
                    for name in names {
                        let Name::Function(functions) = name? else { continue };
                        for function in functions {
                            let function = function?;
                            if ALLOCATOR.iter().any(|part| function.name.contains(part)) {
                                uncounted.insert(function.index);
                            }
                        }
                    }
                }
            }
            _ => {}
        }
    }
    assert!(!uncounted.is_empty(), "the module names the functions of its allocator");
    let additions = Additions {
        steps: globals,
        pages: globals + 1,
        max_pages: globals + 2,
        references: globals - 1,
        spent: spent.unwrap_or_else(|| panic!("the module has the export {SPENT}")),
        refill: functions,
        grow: functions + 1,
    };
    let mut code = CodeSection::new();
    let imported = functions - bodies.len() as u32;
    for (function, body) in (imported..).zip(&bodies) {
        code.raw(&additions.rewrite(wasm, body, !uncounted.contains(&function))?);
    }
    code.function(&additions.refill());
    code.function(&additions.grow());
    additions.assemble(wasm, types, pages as i32, &code)
}

/// Returns whether a global may be the pointer of a stack.
fn is_pointer(ty: wasmparser::GlobalType) -> bool {
    ty.mutable && ty.content_type == wasmparser::ValType::I32
}

impl Additions {
    /// Returns the body of a function with its memory within the limit, and, if it `is_counted`, its loops counted.
    fn rewrite(&self, wasm: &[u8], body: &FunctionBody, is_counted: bool) -> Result<Vec<u8>> {
        let mut operators = body.get_operators_reader()?;
        let mut code = Vec::new();
        let mut copied = body.range().start;
        while !operators.eof() {
            let (operator, at) = operators.read_with_offset()?;
            let end = operators.original_position();
            match operator {
                Operator::Loop { .. } if is_counted => {
                    code.extend_from_slice(&wasm[copied..end]);
                    self.step().iter().for_each(|instruction| instruction.encode(&mut code));
                    copied = end;
                }
                Operator::MemoryGrow { .. } | Operator::MemorySize { .. } => {
                    code.extend_from_slice(&wasm[copied..at]);
                    match operator {
                        Operator::MemoryGrow { .. } => Instruction::Call(self.grow).encode(&mut code),
                        _ => Instruction::GlobalGet(self.pages).encode(&mut code),
                    }
                    copied = end;
                }
                _ => {}
            }
        }
        code.extend_from_slice(&wasm[copied..body.range().end]);
        Ok(code)
    }

    fn step(&self) -> [Instruction<'static>; 9] {
        [
            Instruction::GlobalGet(self.steps),
            Instruction::I32Const(1),
            Instruction::I32Sub,
            Instruction::GlobalSet(self.steps),
            Instruction::GlobalGet(self.steps),
            Instruction::I32Eqz,
            Instruction::If(BlockType::Empty),
            Instruction::Call(self.refill),
            Instruction::End,
        ]
    }

    /// The function that gets new steps.
    fn refill(&self) -> Function {
        let mut function = Function::new([]);
        function.instruction(&Instruction::Call(self.spent));
        function.instruction(&Instruction::GlobalSet(self.steps));
        function.instruction(&Instruction::End);
        function
    }

    /// The function in place of `memory.grow`. Its parameter and its result are the same.
    fn grow(&self) -> Function {
        const ADDED: u32 = 0;
        const OLD: u32 = 1;
        const NEW: u32 = 2;
        // The memory has at most 65,536 pages, so a sum of more is beyond it, unless the request itself overflows.
        let mut function = Function::new([(2, ValType::I32)]);
        for instruction in [
            Instruction::GlobalGet(self.pages),
            Instruction::LocalTee(OLD),
            Instruction::LocalGet(ADDED),
            Instruction::I32Add,
            Instruction::LocalTee(NEW),
            Instruction::GlobalGet(self.max_pages),
            Instruction::I32GtU,
            Instruction::LocalGet(ADDED),
            Instruction::I32Const(MOST_PAGES),
            Instruction::I32GtU,
            Instruction::I32Or,
            Instruction::If(BlockType::Empty),
            Instruction::I32Const(-1),
            Instruction::Return,
            Instruction::End,
            Instruction::LocalGet(NEW),
            Instruction::MemorySize(0),
            Instruction::I32GtU,
            Instruction::If(BlockType::Empty),
            Instruction::LocalGet(NEW),
            Instruction::MemorySize(0),
            Instruction::I32Sub,
            Instruction::MemoryGrow(0),
            Instruction::I32Const(-1),
            Instruction::I32Eq,
            Instruction::If(BlockType::Empty),
            Instruction::I32Const(-1),
            Instruction::Return,
            Instruction::End,
            Instruction::End,
            Instruction::LocalGet(NEW),
            Instruction::GlobalSet(self.pages),
            Instruction::LocalGet(OLD),
            Instruction::End,
        ] {
            function.instruction(&instruction);
        }
        function
    }

    /// Returns the module with this code and the additions. `types` is the number of its types, and `pages` the size of its memory.
    fn assemble(&self, wasm: &[u8], types: u32, pages: i32, code: &CodeSection) -> Result<Vec<u8>> {
        let mut module = Module::new();
        for payload in Parser::new(0).parse_all(wasm) {
            let payload = payload?;
            let (id, range, new) = match &payload {
                Payload::TypeSection(section) => (1, section.range(), self.types()),
                Payload::FunctionSection(section) => (3, section.range(), vec![encoded(&types), encoded(&(types + 1))]),
                Payload::GlobalSection(section) => (6, section.range(), self.globals(pages)),
                Payload::ExportSection(section) => (7, section.range(), self.exports()),
                Payload::CodeSectionStart { .. } => {
                    module.section(code);
                    continue;
                }
                // Only linkers, optimizers and debuggers read these sections.
                Payload::CustomSection(section) if ["name", "target_features"].contains(&section.name()) => continue,
                _ => {
                    if let Some((id, range)) = payload.as_section() {
                        module.section(&RawSection { id, data: &wasm[range] });
                    }
                    continue;
                }
            };
            module.section(&RawSection { id, data: &with_more(wasm, range, &new)? });
        }
        Ok(module.finish())
    }

    fn types(&self) -> Vec<Vec<u8>> {
        // `0x60` begins the type of a function.
        let none: [ValType; 0] = [];
        let one = [ValType::I32];
        vec![
            [vec![0x60], encoded(&none[..]), encoded(&none[..])].concat(),
            [vec![0x60], encoded(&one[..]), encoded(&one[..])].concat(),
        ]
    }

    fn globals(&self, pages: i32) -> Vec<Vec<u8>> {
        let ty = GlobalType { val_type: ValType::I32, mutable: true, shared: false };
        let global = |value| [encoded(&ty), encoded(&ConstExpr::i32_const(value))].concat();
        // The first iteration of all asks for steps.
        vec![global(1), global(pages), global(MOST_PAGES)]
    }

    fn exports(&self) -> Vec<Vec<u8>> {
        let export = |name: &str, index: u32| [encoded(name), encoded(&ExportKind::Global), encoded(&index)].concat();
        vec![
            export("steps", self.steps),
            export("pages", self.pages),
            export("max_pages", self.max_pages),
            export("stack", STACK),
            export("references", self.references),
        ]
    }
}

/// Appends elements to the encoded vector at `range`.
fn with_more(wasm: &[u8], range: std::ops::Range<usize>, new: &[Vec<u8>]) -> Result<Vec<u8>> {
    let mut reader = BinaryReader::new(&wasm[range.clone()], range.start);
    let count = reader.read_var_u32()?;
    let mut vector = encoded(&(count + new.len() as u32));
    vector.extend_from_slice(&wasm[reader.original_position()..range.end]);
    vector.extend(new.iter().flatten());
    Ok(vector)
}

fn encoded(value: &(impl Encode + ?Sized)) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    bytes
}
