// Package betree searches an image of BeTree: it finds, among very many boolean expressions in one WebAssembly file, those
// that an event makes true.
//
// The Elixir library BeTree writes images (mix be_tree.image build). The package runs them with wazero, in pure Go:
//
//	image, err := os.ReadFile("ads.wasm")
//	index, err := betree.Load(ctx, image, betree.Options{Instances: runtime.GOMAXPROCS(0)})
//	ids, err := index.Search(ctx, []byte(`{"age": 30, "country": "CA"}`))
//
// An [Index] may be used by many goroutines. [Options] limits its memory, and the context of a search limits the time of the
// search, also inside WebAssembly code.
package betree
