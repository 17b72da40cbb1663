//! Bounds of modules, within which compiling takes seconds at most.
//!
//! Compiling cannot be stopped, and its time and memory are superlinear in the bytes of a module. At each branch and
//! join the compiler keeps a value for each local variable and each operand: 2,000 loops over 2,000 variables, in 48
//! kilobytes of code, make millions of values. Instruction scheduling extends live ranges, so long straight-line code
//! has many values alive at once. `check` counts both as *work* before a module is compiled. A million units of work
//! take about a second and 100 MB.

use wasmparser::{
    BinaryReaderError, FuncToValidate, FunctionBody, Operator, Parser, Payload, ValidPayload, Validator,
    ValidatorResources, WasmFeatures,
};

use crate::memory::limits;

/// The most bytes of a module, including data segments, which are only copied.
const MAX_MODULE_BYTES: usize = 64 << 20;
const MAX_CODE_BYTES: usize = 4 << 20;
const MAX_FUNCTIONS: usize = 20_000;
/// The most imports, and the most exports: a NIF on a normal scheduler makes a list of each.
const MAX_NAMES: usize = 2_000;
const MAX_TYPES: usize = 50_000;
/// The most parameters and results of all types together.
const MAX_TYPE_VALUES: usize = 100_000;
const MAX_LOCALS: usize = 2_000;
const MAX_DEPTH: usize = 500;
const MAX_FUNCTION_WORK: usize = 2_000_000;
const MAX_MODULE_WORK: usize = 10_000_000;
/// The work of a value that is passed to a function, relative to a value that is only kept.
const WORK_PER_PASSED_VALUE: usize = 16;
/// The divisor that turns the square of a function's bytes of code into work.
const SQUARED_BYTES_PER_WORK: usize = 4_096;
/// The bytes that `rewrite` adds to the code for a bulk instruction.
const CHUNKED_BULK_BYTES: usize = 26;

/// The reason why a module is not compiled.
#[derive(Debug)]
pub enum Refusal {
    Invalid(BinaryReaderError),
    /// The module exceeds a bound.
    Bound(String),
}

impl From<BinaryReaderError> for Refusal {
    fn from(error: BinaryReaderError) -> Self {
        Self::Invalid(error)
    }
}

/// Checks that a module is valid and within the bounds. Takes some 60 milliseconds for each megabyte of code.
pub fn check(wasm: &[u8]) -> Result<(), Refusal> {
    at_most(MAX_MODULE_BYTES, wasm.len(), "bytes")?;
    // Allow all features here: the engine itself refuses those that it lacks.
    let mut validator = Validator::new_with_features(WasmFeatures::all());
    let mut work = 0;
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload?;
        sections(&payload)?;
        if let ValidPayload::Func(function, body) = validator.payload(&payload)? {
            work += check_function(function, &body)?;
            at_most(MAX_MODULE_WORK, work, "units of work for the compiler")?;
        }
    }
    Ok(())
}

fn sections(payload: &Payload) -> Result<(), Refusal> {
    match payload {
        Payload::TypeSection(types) => {
            at_most(MAX_TYPES, types.count() as usize, "types")?;
            let mut values = 0;
            for ty in types.clone().into_iter_err_on_gc_types() {
                let ty = ty?;
                values += ty.params().len() + ty.results().len();
            }
            at_most(MAX_TYPE_VALUES, values, "parameters and results in its types")
        }
        Payload::ImportSection(imports) => at_most(MAX_NAMES, imports.clone().into_imports().count(), "imports"),
        Payload::ExportSection(exports) => at_most(MAX_NAMES, exports.count() as usize, "exports"),
        Payload::MemorySection(memories) => at_most(limits::MAX_MEMORIES, memories.count() as usize, "memories"),
        Payload::TableSection(tables) => {
            for table in tables.clone() {
                let elements = usize::try_from(table?.ty.initial).unwrap_or(usize::MAX);
                at_most(limits::MAX_TABLE_ELEMENTS, elements, "elements in a table")?;
            }
            Ok(())
        }
        Payload::FunctionSection(functions) => at_most(MAX_FUNCTIONS, functions.count() as usize, "functions"),
        Payload::CodeSectionStart { size, .. } => at_most(MAX_CODE_BYTES, *size as usize, "bytes of code"),
        _ => Ok(()),
    }
}

/// Checks a function. Returns its work.
fn check_function(function: FuncToValidate<ValidatorResources>, body: &FunctionBody) -> Result<usize, Refusal> {
    let index = function.index;
    let of_function = |what: &str| format!("{what} in its function {index}");
    let mut validator = function.into_validator(Default::default());
    let mut reader = body.get_binary_reader();
    validator.read_locals(&mut reader)?;
    // Parameters included.
    let locals = validator.len_locals() as usize;
    at_most(MAX_LOCALS, locals, &of_function("local variables"))?;
    let mut bytes = body.range().len();
    let mut work = 0;
    let mut operators = body.get_operators_reader()?;
    while !operators.eof() {
        let (operator, offset) = operators.read_with_offset()?;
        let operands = validator.operand_stack_height() as usize;
        work += weigh(&operator, locals, operands);
        bytes += if is_bulk(&operator) { CHUNKED_BULK_BYTES } else { 0 };
        at_most(MAX_FUNCTION_WORK, work, &of_function("units of work for the compiler"))?;
        validator.op(offset, &operator)?;
        at_most(MAX_DEPTH, validator.control_stack_height() as usize, &of_function("nested blocks"))?;
    }
    work += bytes.saturating_mul(bytes) / SQUARED_BYTES_PER_WORK;
    at_most(MAX_FUNCTION_WORK, work, &of_function("units of work for the compiler"))?;
    Ok(work)
}

/// Returns the work of an operator: it has some at branches, at joins, and where values are passed.
fn weigh(operator: &Operator, locals: usize, operands: usize) -> usize {
    let joint = locals + operands + 1;
    match operator {
        Operator::BrTable { targets } => (1 + targets.len() as usize) * joint,
        Operator::Block { .. }
        | Operator::Loop { .. }
        | Operator::If { .. }
        | Operator::Else
        | Operator::End
        | Operator::Br { .. }
        | Operator::BrIf { .. }
        | Operator::Return => joint,
        Operator::Call { .. }
        | Operator::CallIndirect { .. }
        | Operator::ReturnCall { .. }
        | Operator::ReturnCallIndirect { .. } => WORK_PER_PASSED_VALUE * (operands + 1),
        // `rewrite` makes it a call in one branch, and itself in the other.
        bulk if is_bulk(bulk) => WORK_PER_PASSED_VALUE * (operands + 1) + 3 * joint,
        _ => 0,
    }
}

fn is_bulk(operator: &Operator) -> bool {
    matches!(operator, Operator::MemoryFill { .. } | Operator::MemoryCopy { .. } | Operator::MemoryInit { .. })
}

fn at_most(bound: usize, count: usize, what: &str) -> Result<(), Refusal> {
    if count <= bound {
        return Ok(());
    }
    Err(Refusal::Bound(format!("it has {count} {what}; a module that is compiled here has at most {bound}")))
}
