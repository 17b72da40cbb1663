import Config

if System.get_env("ADS_RUNTIME") == "wasmex", do: config(:be_tree, runtime: BeTree.Runtime.Wasmex)
