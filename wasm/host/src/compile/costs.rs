//! The fuel of each instruction.
//!
//! A slice of fuel must not hold a thread for long, whatever a module executes. Most instructions cost one unit of fuel
//! and take less than a nanosecond. A slower instruction costs at least a unit for each nanosecond. So a default slice
//! of 300,000 units takes at most 0.3 milliseconds (`bench/instructions.exs` measures it). Reads of memory are the
//! exception: a cache miss takes up to 100 nanoseconds and costs one unit, because most reads hit.
//!
//! The costs apply to all modules. They add at most 1 % to the fuel of a search of the built-in module.

use wasmtime::{OperatorCost, VariableOperatorCost};

/// The fuel of `nop`. It generates no code, so `rewrite` inserts a `nop` before an instruction that must cost more
/// (`rewrite::fuel_checks`), and removes the module's own.
pub const NOP_FUEL: u8 = 4;

/// Instructions of 1 to 2 nanoseconds: vector instructions, and others that the built-in modules use often.
const SHORT: u8 = 2;
/// Instructions of 2 to 4 nanoseconds: division, square roots, rounding, and conversions of floats to integers.
const MEDIUM: u8 = 4;
/// Instructions of 4 to 6 nanoseconds: vector instructions that the processor lacks and the compiler emulates.
const LONG: u8 = 8;
/// Calls of the host that find or drop a segment of elements, in 5 to 10 nanoseconds.
const SEGMENT: u8 = 16;
/// Calls of the host that look up the reference of a function, in 30 to 60 nanoseconds.
const REFERENCE: u8 = 100;
/// Growth of a memory or table: 30 nanoseconds if the host refuses it, and some 2,000 if it grants it.
const GROWTH: u8 = u8::MAX;

/// Returns the costs. All others are wasmtime's defaults: one unit for an instruction, none for `drop`, `block`, `end`
/// and the like, and one for each byte or element of a bulk instruction.
pub fn costs() -> OperatorCost {
    let mut costs = references(vectors(numbers(OperatorCost::new())));
    costs.Nop = NOP_FUEL;
    costs
}

fn numbers(costs: OperatorCost) -> OperatorCost {
    OperatorCost {
        I32DivS: MEDIUM,
        I32DivU: MEDIUM,
        I32RemS: MEDIUM,
        I32RemU: MEDIUM,
        I64DivS: MEDIUM,
        I64DivU: MEDIUM,
        I64RemS: MEDIUM,
        I64RemU: MEDIUM,
        // Less, because the built-in index divides floats in searches by distance.
        F32Div: 3,
        F64Div: 3,
        F32Sqrt: MEDIUM,
        F64Sqrt: MEDIUM,
        F32Ceil: MEDIUM,
        F32Floor: MEDIUM,
        F32Trunc: MEDIUM,
        F32Nearest: MEDIUM,
        F64Ceil: MEDIUM,
        F64Floor: SHORT,
        F64Trunc: SHORT,
        F64Nearest: MEDIUM,
        I32TruncF32S: MEDIUM,
        I32TruncF32U: MEDIUM,
        I32TruncF64S: MEDIUM,
        I32TruncF64U: MEDIUM,
        I64TruncF32S: MEDIUM,
        I64TruncF32U: MEDIUM,
        I64TruncF64S: MEDIUM,
        I64TruncF64U: MEDIUM,
        I32TruncSatF32S: MEDIUM,
        I32TruncSatF32U: MEDIUM,
        I32TruncSatF64S: SHORT,
        I32TruncSatF64U: MEDIUM,
        I64TruncSatF32S: MEDIUM,
        I64TruncSatF32U: MEDIUM,
        I64TruncSatF64S: SHORT,
        I64TruncSatF64U: MEDIUM,
        // It also pays for `f32.demote_f64`, without which it cannot be repeated.
        F64PromoteF32: 3,
        ..costs
    }
}

fn vectors(costs: OperatorCost) -> OperatorCost {
    OperatorCost {
        F32x4Div: LONG,
        F64x2Div: LONG,
        F32x4Min: LONG,
        F32x4Max: LONG,
        F64x2Min: LONG,
        F64x2Max: LONG,
        I64x2Mul: MEDIUM,
        I64x2ExtMulLowI32x4S: LONG,
        I64x2ExtMulHighI32x4S: LONG,
        I64x2ExtMulLowI32x4U: LONG,
        I64x2ExtMulHighI32x4U: LONG,
        F32x4Sqrt: LONG,
        F64x2Sqrt: LONG,
        I32x4Mul: SHORT,
        F32x4Ceil: MEDIUM,
        F32x4Floor: MEDIUM,
        F32x4Trunc: MEDIUM,
        F32x4Nearest: MEDIUM,
        F64x2Ceil: MEDIUM,
        F64x2Floor: MEDIUM,
        F64x2Trunc: MEDIUM,
        F64x2Nearest: MEDIUM,
        I32x4TruncSatF32x4S: LONG,
        I32x4TruncSatF32x4U: LONG,
        I32x4TruncSatF64x2SZero: LONG,
        I32x4TruncSatF64x2UZero: LONG,
        I32x4RelaxedTruncF32x4U: LONG,
        I32x4RelaxedTruncF64x2UZero: LONG,
        I32x4RelaxedTruncF32x4S: SHORT,
        I32x4RelaxedTruncF64x2SZero: SHORT,
        F32x4ConvertI32x4S: SHORT,
        F32x4ConvertI32x4U: SHORT,
        F64x2ConvertLowI32x4S: SHORT,
        F64x2ConvertLowI32x4U: SHORT,
        F32x4DemoteF64x2Zero: SHORT,
        F64x2PromoteLowF32x4: SHORT,
        I16x8ExtAddPairwiseI8x16S: SHORT,
        I16x8ExtAddPairwiseI8x16U: SHORT,
        I32x4ExtAddPairwiseI16x8S: SHORT,
        I32x4ExtAddPairwiseI16x8U: SHORT,
        I16x8Q15MulrSatS: SHORT,
        I16x8ExtMulLowI8x16S: SHORT,
        I16x8ExtMulHighI8x16S: SHORT,
        I16x8ExtMulLowI8x16U: SHORT,
        I16x8ExtMulHighI8x16U: SHORT,
        I32x4ExtMulLowI16x8S: SHORT,
        I32x4ExtMulHighI16x8S: SHORT,
        I32x4ExtMulLowI16x8U: SHORT,
        I32x4ExtMulHighI16x8U: SHORT,
        I32x4RelaxedDotI8x16I7x16AddS: SHORT,
        I16x8Bitmask: SHORT,
        I8x16AllTrue: SHORT,
        I16x8AllTrue: SHORT,
        I32x4AllTrue: SHORT,
        I64x2AllTrue: SHORT,
        ..costs
    }
}

fn references(costs: OperatorCost) -> OperatorCost {
    OperatorCost {
        CallIndirect: MEDIUM,
        ReturnCallIndirect: MEDIUM,
        RefFunc: REFERENCE,
        TableInit: SEGMENT,
        ElemDrop: SEGMENT,
        MemoryGrow: GROWTH,
        TableGrow: GROWTH,
        variable: VariableOperatorCost { table_copy_per_element: 2, ..costs.variable.clone() },
        ..costs
    }
}
