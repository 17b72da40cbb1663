# Each target does the set-up that it needs. `make` lists them. With `make --jobs=2` two parts of `lint` or `test` run at once.

# Elixir warns where file names are not UTF-8.
export LC_ALL := C.UTF-8
# Cargo and rustc would look for the jobs of make in these, which they cannot share.
unexport MAKEFLAGS MFLAGS

CARGO := $(CURDIR)/scripts/cargo
CARGO_WASM32 := $(CURDIR)/scripts/cargo_wasm32
ready := _build/setup.done
node_ready := _build/node.done
browser_ready := _build/browser.done
report := report/dist/tune.html

.PHONY: help setup report build build.test web playground demo test test.mix test.rust test.wasm32 test.host test.web test.repeat test.elixir attack soak bench bench.quick bench.publish bench.live bench.stream bench.large.events bench.instructions bench.rules bench.rules.elixir bench.steiner bench.w7 bench.w7.quick bench.tune bench.benchee bench.every.quick bench.web bench.erl example.erlang lint lint.mix lint.rust lint.web dialyzer fmt fuzz release clean

help: ## List the targets
	@sed -n 's/^\([a-z0-9.]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 20

setup: ## Install what is missing: Elixir, Rust, its wasm32 library
	@scripts/setup
	@touch $(ready)

$(ready): scripts/setup scripts/cargo
	@scripts/setup
	@touch $(ready)

# Node, npm and Chromium.
$(node_ready): scripts/setup | $(ready)
	@scripts/setup browser
	@touch $(node_ready)

# The packages that the lock files name.
$(browser_ready): test/browser/package-lock.json playground/package-lock.json $(node_ready)
	@cd test/browser && npm ci --no-audit --no-fund --loglevel=error
	@cd playground && npm ci --no-audit --no-fund --loglevel=error
	@touch $(browser_ready)

# The page of mix be_tree.tune. The library compiles without it.
$(report): report/build.js report/package-lock.json $(wildcard report/src/*) | $(node_ready)
	@cd report && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && npm run --silent build

report: $(report) ## Build the page of mix be_tree.tune, with npm
	@mix compile

build: $(ready) ## Compile the Elixir, the sandboxed module and the NIF
	@mix compile

# By itself, because two programs of the tests that compile at once would overwrite each other's files.
build.test: $(report)
	@MIX_ENV=test mix compile

web: build ## Build the package for JavaScript, in _build/web/package
	@MIX_ENV=dev mix be_tree.web

playground: web $(browser_ready) ## Build the playground, in _build/playground, and serve it
	@node playground/build.mjs
	@node playground/serve.mjs

demo: $(ready) ## Show what BeTree does
	@MIX_ENV=dev mix be_tree.demo

test: test.mix test.rust test.wasm32 test.host test.web ## Run all tests, Rust's and Elixir's

test.mix: build.test $(browser_ready) ## Test the Elixir
	@echo "mix test"
	@MIX_ENV=test mix test

test.rust: $(ready) ## Test the index, the rules and the guest natively
	@echo "cargo test: the index, the rules and the guest"
	@cd wasm && $(CARGO) test --quiet --locked -p be_tree_index -p be_tree_rules -p be_tree_guest

test.wasm32: $(ready) ## Test the index in the sandbox
	@echo "cargo test: the index in the sandbox"
	@$(CARGO_WASM32) test --quiet --locked -p be_tree_index --features report_panics --tests

test.host: $(ready) ## Test what of the host runs without the BEAM
	@echo "cargo test: what of the host runs without the BEAM"
	@cd wasm && $(CARGO) test --quiet --locked --release -p be_tree_host

test.web: build.test $(browser_ready) ## Test the package for JavaScript and the playground, in Node and Chromium
	@echo "node --test: the package, and pages in Chromium"
	@MIX_ENV=test mix run test/browser/cases.exs
	@node playground/build.mjs
	@node --test --test-reporter=spec wasm/web/test/*.test.mjs test/browser/*.test.mjs

test.repeat: $(ready) ## Run the Elixir tests REPEAT times (20), beside busy cores
	@scripts/repeat

test.elixir: $(ready) ## Run the Elixir tests on the Elixir of the folder ELIXIR
	@scripts/test-elixir $(TESTS)

attack: $(ready) ## Run the attacks of test/attacks, and all other tests that have two sizes, in full size
	@BE_TREE_ATTACK=full MIX_ENV=test mix test --timeout 3600000 test/attacks \
	  $$(grep -rl 'Attack\.size' test --include='*_test.exs' --exclude-dir=attacks)

soak: $(ready) ## Search, change, swap and kill for SOAK_MINUTES (60)
	@BE_TREE_SOAK_MINUTES=$${SOAK_MINUTES:-60} MIX_ENV=test mix test test/soak

bench: $(ready) ## Run the benchmarks, a quarter of an hour
	@MIX_ENV=dev mix be_tree.bench

bench.quick: $(ready) ## Run the small benchmarks, two minutes
	@MIX_ENV=dev mix be_tree.bench --quick

bench.publish: $(ready) ## Measure published indexes, two minutes
	@MIX_ENV=dev mix run bench/publish.exs

bench.live: $(ready) ## Measure a server that is changed while it is searched, one minute, its memory for MINUTES, or IDS=1: ids that are terms
	@MIX_ENV=dev mix run bench/live.exs $(if $(MINUTES),--minutes $(MINUTES)) $(if $(IDS),--ids)

bench.stream: $(ready) ## Compare streams with a loop in one process, two minutes
	@MIX_ENV=dev mix run bench/stream.exs

bench.large.events: $(ready) ## Measure how long searches of events of megabytes hold their scheduler, a minute
	@MIX_ENV=dev mix run bench/large_events.exs

bench.instructions: $(ready) ## Measure a slice of each instruction of WebAssembly, half a minute
	@MIX_ENV=dev mix run bench/instructions.exs

bench.rules: $(ready) ## Measure stateful rules beside CLIPS and durable_rules, some minutes
	@MIX_ENV=dev mix run bench/rules.exs

bench.rules.elixir: $(ready) ## Measure rules from Elixir beside the sandbox alone, three minutes
	@MIX_ENV=dev mix run bench/rules_elixir.exs

bench.steiner: $(ready) ## Run the experiment of a yielding NIF, two minutes
	@MIX_ENV=dev mix run bench/steiner.exs

bench.w7: $(ready) ## Measure how late others wake beside searches, ten minutes
	@MIX_ENV=dev mix run bench/w7.exs

bench.w7.quick: $(ready) ## The same without a million expressions, two minutes
	@MIX_ENV=dev mix run bench/w7.exs --quick

bench.tune: $(ready) $(report) ## Tune for two generated workloads, with a report each, one minute
	@MIX_ENV=dev mix be_tree.tune --workload W1 --quick --out _build/bench/tune/W1
	@MIX_ENV=dev mix be_tree.tune --workload W3 --quick --out _build/bench/tune/W3

bench.benchee: $(ready) ## Run the workloads in Benchee, where that is present, one minute
	@MIX_ENV=dev mix run bench/benchee/workloads.exs --quick

bench.every.quick: $(ready) $(report) ## Run every quick benchmark, under ten minutes, and print the time of each
	@scripts/bench-every-quick

bench.web: web $(browser_ready) ## Measure the package for JavaScript, a minute
	@MIX_ENV=dev mix be_tree.gen W3 --out _build/bench/web >/dev/null
	@node bench/web.mjs _build/bench/web

bench.erl: $(ready) ## Run the benchmark of erl-be-tree's document, ten minutes
	@MIX_ENV=dev mix be_tree.erl_bench generate
	@MIX_ENV=dev mix be_tree.erl_bench measure
	@MIX_ENV=dev mix be_tree.erl_bench compare_stats

example.erlang: $(ready) ## Run the tests of the example in Erlang, with rebar3
	@examples/erlang/run eunit

lint: lint.rust lint.mix lint.web ## Check the formatting, and compile and lint with warnings as errors

lint.mix: build ## Check the formatting of the Elixir, and compile it with warnings as errors
	@echo "mix format, mix compile"
	@mix format --check-formatted
	@MIX_ENV=test mix compile --force --warnings-as-errors

lint.rust: $(ready) ## Check the formatting of the Rust, and lint it
	@echo "cargo fmt, cargo clippy"
	@cd wasm && $(CARGO) fmt --all --check
	@cd wasm/index/fuzz && $(CARGO) fmt --check
	@cd wasm/rules/fuzz && $(CARGO) fmt --check
	@cd bench/native && $(CARGO) fmt --all --check
	@cd examples/steiner && $(CARGO) fmt --check
	@cd examples/scan && $(CARGO) fmt --check
	@cd wasm && $(CARGO) clippy --quiet --locked --all-targets -- -D warnings
	@$(CARGO_WASM32) clippy --quiet --locked -p be_tree_index --features report_panics --all-targets -- -D warnings
	@$(CARGO_WASM32) clippy --quiet --locked -p be_tree_guest -p be_tree_rules_guest -- -D warnings
	@cd wasm/index/fuzz && $(CARGO) clippy --quiet --locked --target-dir ../../target/fuzz -- -D warnings
	@cd wasm/rules/fuzz && $(CARGO) clippy --quiet --locked --target-dir ../../target/fuzz -- -D warnings
	@cd bench/native && $(CARGO) clippy --quiet --locked -p be_tree_bench_common -p be_tree_bench -p be_tree_bench_rules -- -D warnings
	@cd bench/native && $(CARGO) clippy --quiet --locked -p be_tree_bench_peers -- -D warnings
	@cd examples/steiner && $(CARGO) clippy --quiet --locked --target-dir ../../wasm/target -- -D warnings
	@cd examples/scan && $(CARGO) clippy --quiet --locked --target-dir ../../wasm/target -- -D warnings
	@cd wasm/web && $(CARGO) fmt --all --check
	@cd wasm/web && $(CARGO) clippy --quiet --locked --all --target-dir ../target -- -D warnings

lint.web: web $(browser_ready) ## Check the types and the formatting of the playground
	@echo "tsc, prettier"
	@cd playground && npm run --silent lint

dialyzer: build ## Check the types; what Dialyzer knows of the libraries is kept in _build
	@scripts/dialyzer

fmt: $(ready) $(browser_ready) ## Format all code
	@mix format
	@cd wasm && $(CARGO) fmt --all
	@cd wasm/index/fuzz && $(CARGO) fmt
	@cd wasm/rules/fuzz && $(CARGO) fmt
	@cd bench/native && $(CARGO) fmt --all
	@cd examples/steiner && $(CARGO) fmt
	@cd examples/scan && $(CARGO) fmt
	@cd wasm/web && $(CARGO) fmt --all
	@cd playground && npm run --silent format

fuzz: $(ready) ## Fuzz the index and the rules, each target for FUZZ_SECONDS (60)
	@scripts/fuzz

release: $(ready) $(report) ## Build the package and the archive of the NIF, in _build/release
	@MIX_ENV=dev mix be_tree.release

clean: ## Delete all that was built; the next build takes minutes
	@rm -rf _build wasm/target
