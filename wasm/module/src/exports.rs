//! The exports that all modules have alike.

/// Defines the exports that do not depend on what a module is for: its version, its inbox and outbox,
/// `be_tree_resume` and `be_tree_forget`.
///
/// `$cell` is the module's state, and `$state` the state's type, an [`Instance`](crate::instance::Instance).
#[macro_export]
macro_rules! exports {
    ($cell:ident: $state:ty, version: $version:literal) => {
        use $crate::instance::Instance as _;

        /// Returns the version of the ABI.
        #[no_mangle]
        pub extern "C" fn be_tree_abi() -> i32 {
            $version
        }

        /// Returns the address of a buffer of at least `length` bytes, or 0 if memory is refused.
        #[no_mangle]
        pub extern "C" fn be_tree_inbox(length: u32) -> u32 {
            $cell.with(|state| state.inbox(length).map_or(0, |address| address as usize as u32))
        }

        /// Returns the address of three `u32`: the address of the last result, its length in bytes, and the progress of an operation.
        #[no_mangle]
        pub extern "C" fn be_tree_outbox() -> u32 {
            $cell.with(|state| state.outbox() as usize as u32)
        }

        /// Continues an operation that a trap stopped.
        #[no_mangle]
        pub extern "C" fn be_tree_resume() -> i32 {
            $cell.with(|state| state.resume())
        }

        /// Drops everything of earlier operations, and clears free memory, so that the memory can be kept as an image.
        #[no_mangle]
        pub extern "C" fn be_tree_forget() -> i32 {
            // Before, so that no old data gets into the new tables; after, so that no data of this call remains.
            $crate::stack::wipe();
            let status = forget();
            $crate::stack::wipe();
            status
        }

        /// Not inlined, so that its stack begins where the cleared part of the stack begins.
        #[inline(never)]
        fn forget() -> i32 {
            $cell.with(|state| state.change(<$state>::forget))
        }
    };
}
