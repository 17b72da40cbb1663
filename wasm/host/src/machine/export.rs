//! The exported functions of an instance, each looked up once.

use rustler::Term;
use wasmtime::{Func, Instance, Result, Store, TypedFunc, Val, ValType};

use crate::failure::{Failure, Kind};
use crate::memory::limits::Limits;
use crate::terms::{self, Number};

pub struct Export {
    name: Box<[u8]>,
    entry: Callable,
    params: Vec<Number>,
    results: usize,
}

impl Export {
    pub fn find(instance: &Instance, store: &mut Store<Limits>, name: &[u8]) -> Result<Self, Failure> {
        let text = String::from_utf8_lossy(name);
        let func = instance
            .get_func(&mut *store, &text)
            .ok_or_else(|| Failure::bad_module(format!("the module exports no function {text}")))?;
        let ty = func.ty(&*store);
        let numbers = |types: &mut dyn Iterator<Item = ValType>| {
            types.map(|ty| Number::of(&ty).ok_or(ty)).collect::<Result<Vec<_>, _>>()
        };
        let foreign = |ty| {
            let what = format!("the function {text} has a parameter or result of type {ty}, which cannot be passed");
            Failure::bad_module(what)
        };
        let params = numbers(&mut ty.params()).map_err(foreign)?;
        let results = numbers(&mut ty.results()).map_err(foreign)?.len();
        Ok(Self { name: name.into(), entry: Callable::new(func, store), params, results })
    }

    pub fn is(&self, name: &[u8]) -> bool {
        *self.name == *name
    }

    /// Decodes the arguments of a call into `params`, and sizes `results`.
    pub fn prepare(&self, arguments: Term, params: &mut Vec<Val>, results: &mut Vec<Val>) -> Result<(), Failure> {
        let given = arguments.list_length().map_err(|_| Failure::new(Kind::Type, "arguments are a list"))?;
        if given != self.params.len() {
            return Err(self.refuse(format!("takes {} arguments, and got {given}", self.params.len())));
        }
        params.clear();
        let arguments = arguments.into_list_iterator().into_iter().flatten();
        for (term, number) in arguments.zip(&self.params) {
            match terms::argument(term, *number) {
                Some(value) => params.push(value),
                None => {
                    let position = params.len() + 1;
                    return Err(self.refuse(format!(
                        "takes an {number} as argument {position}, and got {}",
                        terms::describe(term)
                    )));
                }
            }
        }
        results.clear();
        results.resize(self.results, Val::I32(0));
        Ok(())
    }

    /// Converts integers to `params`, and sizes `results`. An integer is signed, or has the bits of an unsigned one.
    pub fn prepare_integers(
        &self,
        arguments: &[i64],
        params: &mut Vec<Val>,
        results: &mut Vec<Val>,
    ) -> Result<(), Failure> {
        if arguments.len() != self.params.len() {
            return Err(self.refuse(format!("takes {} arguments, and got {}", self.params.len(), arguments.len())));
        }
        params.clear();
        for (argument, number) in arguments.iter().zip(&self.params) {
            params.push(match number {
                Number::I32 => Val::I32(*argument as i32),
                Number::I64 => Val::I64(*argument),
                Number::F32 => Val::F32((*argument as f32).to_bits()),
                Number::F64 => Val::F64((*argument as f64).to_bits()),
            });
        }
        results.clear();
        results.resize(self.results, Val::I32(0));
        Ok(())
    }

    /// Calls the function with the arguments that `prepare` decoded.
    pub async fn call(&self, store: &mut Store<Limits>, params: &[Val], results: &mut [Val]) -> Result<()> {
        self.entry.call(store, params, results).await
    }

    fn refuse(&self, message: String) -> Failure {
        Failure::new(Kind::Type, format!("the function {} {message}", String::from_utf8_lossy(&self.name)))
    }
}

/// Defines `Callable`. Functions of these shapes are called typed, without the look-up of the type that an untyped call
/// makes. That saves 0.2 of a call's microsecond.
macro_rules! entry {
    ($($shape:ident: ($($param:ident: $variant:ident $ty:ty),*);)*) => {
        enum Callable {
            $($shape(TypedFunc<($($ty,)*), i32>),)*
            Any(Func),
        }

        impl Callable {
            fn new(func: Func, store: &Store<Limits>) -> Self {
                $(if let Ok(typed) = func.typed(store) {
                    return Self::$shape(typed);
                })*
                Self::Any(func)
            }

            async fn call(&self, store: &mut Store<Limits>, params: &[Val], results: &mut [Val]) -> Result<()> {
                match (self, params, results) {
                    $((Self::$shape(func), [$(Val::$variant($param)),*], [result]) => {
                        *result = Val::I32(func.call_async(store, ($(*$param,)*)).await?);
                        Ok(())
                    })*
                    (entry, params, results) => entry.func().call_async(store, params, results).await,
                }
            }

            fn func(&self) -> &Func {
                match self {
                    $(Self::$shape(func) => func.func(),)*
                    Self::Any(func) => func,
                }
            }
        }
    };
}

entry! {
    None: ();
    I32: (a: I32 i32);
    I64: (a: I64 i64);
    I32I32: (a: I32 i32, b: I32 i32);
    I32I32I32: (a: I32 i32, b: I32 i32, c: I32 i32);
    I32I32I32I32: (a: I32 i32, b: I32 i32, c: I32 i32, d: I32 i32);
    I32I32I64: (a: I32 i32, b: I32 i32, c: I64 i64);
    I64I32I32I32I32: (a: I64 i64, b: I32 i32, c: I32 i32, d: I32 i32, e: I32 i32);
}
