//! The exports that all modules share.

/// Defines the exports common to all modules: the version, the inbox and outbox, `be_tree_resume` and `be_tree_forget`.
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

        /// Drops all data of earlier operations, and clears free memory, so that the memory can be snapshotted.
        #[no_mangle]
        pub extern "C" fn be_tree_forget() -> i32 {
            // Before, so that no old data enters the new tables; after, so that no data of this call remains.
            $crate::stack::wipe();
            let status = forget();
            $crate::stack::wipe();
            status
        }

        /// Not inlined, so that its stack frame begins where the cleared part of the stack begins.
        #[inline(never)]
        fn forget() -> i32 {
            $cell.with(|state| state.change(<$state>::forget))
        }
    };
}
