//! The functions that an instance exports, each looked up once.

use rustler::Term;
use wasmtime::{Func, Instance, Store, Val, ValType};

use crate::failure::{Failure, Kind};
use crate::limits::Limits;
use crate::terms;

pub struct Export {
    name: Box<[u8]>,
    func: Func,
    params: Vec<ValType>,
    results: usize,
}

impl Export {
    pub fn find(instance: &Instance, store: &mut Store<Limits>, name: &[u8]) -> Result<Self, Failure> {
        let text = String::from_utf8_lossy(name);
        let func = instance
            .get_func(&mut *store, &text)
            .ok_or_else(|| Failure::bad_module(format!("the module exports no function {text}")))?;
        let ty = func.ty(&*store);
        if let Some(foreign) = ty.params().chain(ty.results()).find(|ty| !crosses(ty)) {
            let message =
                format!("the function {text} has a parameter or result of type {foreign}, which cannot be passed");
            return Err(Failure::bad_module(message));
        }
        let results = ty.results().len();
        Ok(Self { name: name.into(), func, params: ty.params().collect(), results })
    }

    pub fn is(&self, name: &[u8]) -> bool {
        *self.name == *name
    }

    /// Reads a call's arguments into `params`, and makes room for as many results as the function has.
    pub fn prepare(&self, arguments: Term, params: &mut Vec<Val>, results: &mut Vec<Val>) -> Result<(), Failure> {
        let given = arguments.list_length().map_err(|_| Failure::new(Kind::Type, "arguments are a list"))?;
        if given != self.params.len() {
            return Err(self.refuse(format!("takes {} arguments, and got {given}", self.params.len())));
        }
        params.clear();
        let arguments = arguments.into_list_iterator().into_iter().flatten();
        for (position, (term, ty)) in arguments.zip(&self.params).enumerate() {
            match terms::argument(term, ty) {
                Some(value) => params.push(value),
                None => {
                    return Err(self.refuse(format!("takes an {ty} as argument {}, and got {term:?}", position + 1)))
                }
            }
        }
        results.clear();
        results.resize(self.results, Val::I32(0));
        Ok(())
    }

    pub fn func(&self) -> Func {
        self.func
    }

    fn refuse(&self, message: String) -> Failure {
        Failure::new(Kind::Type, format!("the function {} {message}", String::from_utf8_lossy(&self.name)))
    }
}

fn crosses(ty: &ValType) -> bool {
    matches!(ty, ValType::I32 | ValType::I64 | ValType::F32 | ValType::F64)
}
