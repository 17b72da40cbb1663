//! Finds the globals that a snapshot must contain, or the reason why a module cannot have snapshots.
//!
//! A snapshot contains the exported memory and the exported mutable globals, and a replica is a new instance with this
//! state. So a module can be replicated if its instances have no other state: no second memory, no mutable global that
//! is not exported, no table that its code changes, and no segment that its code drops.

use wasmparser::{ExternalKind, FunctionBody, Operator, Parser, Payload, Result, ValType};

use crate::compile::code_files::SavedGlobals;

/// Returns the names of the globals that a snapshot must contain, or the reason against snapshots. `wasm` must be
/// valid.
pub fn globals(wasm: &[u8]) -> SavedGlobals {
    match State::read(wasm) {
        Ok(state) => state.globals(),
        Err(error) => Err(format!("it cannot be read: {error}")),
    }
}

#[derive(Default)]
struct State {
    memories: u32,
    memory_exported: bool,
    globals: Vec<Global>,
    /// An instruction that changes state outside of the exported memory and globals.
    forbidden: Option<&'static str>,
}

struct Global {
    mutable: bool,
    number: bool,
    export: Option<String>,
}

impl State {
    /// Reads all sections. In a valid module, globals precede exports, and exports precede code.
    fn read(wasm: &[u8]) -> Result<Self> {
        let mut state = Self::default();
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::MemorySection(section) => state.memories = section.count(),
                Payload::GlobalSection(section) => {
                    for global in section {
                        let ty = global?.ty;
                        let number = !matches!(ty.content_type, ValType::Ref(_));
                        state.globals.push(Global { mutable: ty.mutable, number, export: None });
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        let export = export?;
                        match export.kind {
                            ExternalKind::Memory if export.name == "memory" => state.memory_exported = true,
                            ExternalKind::Global => {
                                if let Some(global) = state.globals.get_mut(export.index as usize) {
                                    global.export = Some(export.name.to_owned());
                                }
                            }
                            _ => {}
                        }
                    }
                }
                Payload::CodeSectionEntry(body) => state.forbidden = state.forbidden.or(forbidden(&body)?),
                _ => {}
            }
        }
        Ok(state)
    }

    fn globals(self) -> SavedGlobals {
        if self.memories > 1 {
            return Err(format!("it has {} memories", self.memories));
        }
        if self.memories == 1 && !self.memory_exported {
            return Err("its memory is not exported as memory".into());
        }
        if let Some(instruction) = self.forbidden {
            return Err(format!("it uses {instruction}"));
        }
        let mutable = self.globals.into_iter().enumerate().filter(|(_, global)| global.mutable);
        let carried = mutable.map(|(index, global)| match global.export {
            Some(name) if global.number => Ok(name),
            Some(name) => Err(format!("its mutable global {name} holds a reference")),
            None => Err(format!("its mutable global number {index} is not exported")),
        });
        carried.collect()
    }
}

fn forbidden(body: &FunctionBody) -> Result<Option<&'static str>> {
    let mut operators = body.get_operators_reader()?;
    while !operators.eof() {
        let name = match operators.read()? {
            Operator::TableSet { .. } => "table.set",
            Operator::TableGrow { .. } => "table.grow",
            Operator::TableFill { .. } => "table.fill",
            Operator::TableCopy { .. } => "table.copy",
            Operator::TableInit { .. } => "table.init",
            Operator::ElemDrop { .. } => "elem.drop",
            Operator::DataDrop { .. } => "data.drop",
            _ => continue,
        };
        return Ok(Some(name));
    }
    Ok(None)
}
