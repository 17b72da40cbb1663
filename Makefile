# Each target does the set-up that it needs. `make` lists the targets. `make --jobs=2` runs two parts of `lint` at once.

# Elixir warns where file names are not UTF-8.
export LC_ALL := C.UTF-8
# Cargo and rustc would look for the jobs of make in these, which they cannot share.
unexport MAKEFLAGS MFLAGS

CARGO := $(CURDIR)/scripts/cargo
CARGO_WASM32 := $(CURDIR)/scripts/cargo_wasm32
ready := _build/setup.done
node_ready := _build/node.done
broker_ready := _build/broker.done
postgres_ready := _build/postgres.done
plugin := plugins/rabbitmq_be_tree_exchange
broker4_suite ?= trixie
broker4 ?= $(CURDIR)/_build/broker4-$(broker4_suite)
aarch64 ?= $(CURDIR)/_build/erlang-aarch64
browser_ready := _build/browser.done
bundlers_ready := _build/bundlers.done
runtimes_ready := _build/runtimes.done
report := report/dist/tune.html

.PHONY: audit help setup report build build.test web playground demo test test.mix test.rust test.wasm32 test.host test.web test.bundlers test.runtimes test.erlang test.repeat test.elixir test.broker test.workers test.postgres test.broker4 test.aarch64 broker attack soak bench lint lint.mix lint.rust lint.web dialyzer docs test.docs fmt fuzz release release.folders clean

help: ## List the targets
	@sed -n 's/^\([a-z0-9.]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

setup: ## Install the missing tools: Elixir, Rust, its wasm32 library
	@scripts/setup
	@touch $(ready)

$(ready): scripts/setup scripts/cargo
	@scripts/setup
	@touch $(ready)

# Node, npm and Chromium.
$(node_ready): scripts/setup | $(ready)
	@scripts/setup browser
	@touch $(node_ready)

# Debian's RabbitMQ, whose service stays off.
$(broker_ready): scripts/setup | $(ready)
	@scripts/setup broker
	@touch $(broker_ready)

# Debian's PostgreSQL, whose service stays off.
$(postgres_ready): scripts/setup | $(ready)
	@scripts/setup postgres
	@touch $(postgres_ready)

# WebAssembly runtimes of Node, Python, Go and the JVM.
$(runtimes_ready): scripts/setup scripts/go clients/go/go.mod examples/images/requirements.txt examples/images/pom.xml | $(ready)
	@scripts/setup runtimes
	@touch $(runtimes_ready)

# The packages that the lock files name.
$(browser_ready): test/browser/package-lock.json playground/package-lock.json $(node_ready)
	@cd test/browser && npm ci --no-audit --no-fund --loglevel=error
	@cd playground && npm ci --no-audit --no-fund --loglevel=error
	@touch $(browser_ready)

# The runtimes and bundlers that the lock file names. `npm ci` refuses an optional dependency of Vite 8 that the registry lacks.
$(bundlers_ready): test/bundlers/package-lock.json $(node_ready)
	@mkdir -p _build/bundlers && cp test/bundlers/package.json test/bundlers/package-lock.json _build/bundlers
	@cd _build/bundlers && npm install --no-save --no-audit --no-fund --loglevel=error
	@touch $(bundlers_ready)

# The pages of mix be_tree.tune and mix be_tree.tenants. The library compiles without them.
$(report): report/build.js report/package-lock.json $(wildcard report/src/*.* report/src/tenants/*) | $(node_ready)
	@cd report && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && npm run --silent build

report: $(report) ## Build the pages of mix be_tree.tune and mix be_tree.tenants, with npm
	@mix compile

build: $(ready) ## Compile the Elixir, the sandboxed module and the NIF
	@mix compile

# By itself, because two programs of the tests that compile at once would overwrite each other's files.
build.test: $(report)
	@MIX_ENV=test mix compile

# The NIF and the modules are those of this checkout: they need not be compiled again for the archive.
broker: build ## Build the plugin for RabbitMQ, four archives in _build/broker
	@mkdir -p $(plugin)/_build/prod/lib/be_tree/priv && cp -rf _build/dev/lib/be_tree/priv/. $(plugin)/_build/prod/lib/be_tree/priv/
	@cd $(plugin) && MIX_ENV=prod CARGO_TARGET_DIR=$(CURDIR)/wasm/target mix do compile --warnings-as-errors, run --no-start package.exs $(CURDIR)/_build/broker

web: build ## Build the package for JavaScript, in _build/web/package
	@MIX_ENV=dev mix be_tree.web

playground: web $(browser_ready) ## Build the playground, in _build/playground, and serve it
	@node playground/build.mjs
	@node playground/serve.mjs

demo: $(ready) ## Show what BeTree does
	@MIX_ENV=dev mix be_tree.demo

test: ## Run all tests, two parts at once, or PART=mix, rust, wasm32, host, web, broker, workers, postgres, bundlers, runtimes, aarch64, docs, erlang, elixir or repeat
ifdef PART
	@$(MAKE_COMMAND) --no-print-directory $(addprefix test.,$(PART))
else
	@echo "two parts at once; the output of a part comes when it ends"
	@$(MAKE_COMMAND) --no-print-directory --jobs=2 --output-sync=target $(addprefix test.,mix rust wasm32 host web broker workers postgres)
endif

# The tests of the Elixir, or those of TESTS.
test.mix: build.test $(browser_ready)
	@echo "mix test"
	@MIX_ENV=test mix test $(TESTS)

# The index, the rules and the guest, natively.
test.rust: $(ready)
	@echo "cargo test: the index, the rules and the guest"
	@cd wasm && $(CARGO) test --quiet --locked -p be_tree_index -p be_tree_rules -p be_tree_guest

# The index in the sandbox.
test.wasm32: $(ready)
	@echo "cargo test: the index in the sandbox"
	@$(CARGO_WASM32) test --quiet --locked -p be_tree_index --features report_panics --tests

# The host without the BEAM.
test.host: $(ready)
	@echo "cargo test: the host without the BEAM"
	@cd wasm && $(CARGO) test --quiet --locked --release -p be_tree_host

# The package for JavaScript and the playground, in Node and Chromium.
test.web: build.test $(browser_ready)
	@echo "node --test: the package, and pages in Chromium"
	@MIX_ENV=test mix run test/browser/cases.exs
	@MIX_ENV=test mix run test/browser/rules_cases.exs
	@node playground/build.mjs
	@node --test --test-reporter=spec wasm/web/test/*.test.mjs test/browser/*.test.mjs

# The package for JavaScript in runtimes and bundlers from npm, which take 1.2 GB.
test.bundlers: web $(bundlers_ready) $(browser_ready)
	@echo "node --test: the package in runtimes and bundlers"
	@node --test --test-reporter=spec test/bundlers/bundlers.test.mjs

# The plugin for RabbitMQ, with Debian's broker: two and more nodes on the loopback interface.
test.broker: broker $(broker_ready)
	@echo "mix test: the plugin for RabbitMQ"
	@scripts/test-broker $(TESTS)

# Workers outside the broker, and tenants over nodes: examples/rabbitmq.
test.workers: build.test $(broker_ready)
	@echo "mix test: examples/rabbitmq"
	@scripts/test-broker workers

# The same with the RabbitMQ 4 of Debian 13, or of the Debian of broker4_suite. It needs the rights of root.
test.broker4: broker $(broker_ready)
	@scripts/setup broker4 $(broker4_suite) $(broker4)
	@echo "mix test: the plugin for the RabbitMQ of Debian $(broker4_suite)"
	@BE_TREE_BROKER_ROOT=$(broker4) scripts/test-broker $(TESTS)

# A server that follows a table of Debian's PostgreSQL: examples/postgres.
test.postgres: build.test $(postgres_ready)
	@echo "mix test: examples/postgres"
	@scripts/test-postgres

# The pages of the documentation, in Chromium.
test.docs: docs $(browser_ready)
	@echo "node --test: the documentation in Chromium"
	@node --test --test-reporter=spec test/browser/docs.mjs

# Images in Node, Python, Go and on the JVM. The first run builds the portable module.
test.runtimes: build.test $(runtimes_ready)
	@echo "mix test: images in Node, Python, Go and on the JVM"
	@MIX_ENV=test mix test --include foreign test/runtimes

# The tests of the Elixir, REPEAT times (20), beside busy cores.
test.repeat: $(ready)
	@scripts/repeat

# The tests of the Elixir on the Elixir of the folder ELIXIR.
test.elixir: $(ready)
	@scripts/test-elixir $(TESTS)

# The tests of the example in Erlang, with rebar3.
test.erlang: $(ready)
	@examples/erlang/run eunit

attack: $(ready) ## Run the attacks and all other tests that have two sizes in full size
	@BE_TREE_ATTACK=full MIX_ENV=test mix test --timeout 3600000 test/attacks \
	  $$(grep -rl 'Attack\.size' test --include='*_test.exs' --exclude-dir=attacks)

# The unit tests of the index, and the NIF with both modules in the Erlang of ARM, with QEMU. Needs root, for debootstrap.
aarch64_tests := test/conformance_test.exs test/property_test.exs $(addprefix test/be_tree/,search_test.exs fuel_test.exs \
  instructions_test.exs put_test.exs rollback_test.exs runtime_test.exs image_test.exs rules_test.exs)
test.aarch64: build.test
	@scripts/setup aarch64 $(aarch64)
	@echo "cargo test and mix test on ARM, with QEMU, half an hour"
	@scripts/test-aarch64 $(aarch64) $(or $(TESTS),$(aarch64_tests))

soak: $(ready) ## Search, change, swap and kill for SOAK_MINUTES (60)
	@BE_TREE_SOAK_MINUTES=$${SOAK_MINUTES:-60} MIX_ENV=test mix test test/soak

bench: $(ready) $(if $(filter all tune,$(CASE)),$(report)) $(if $(filter web,$(CASE)),web $(browser_ready)) ## Run the benchmarks, or one: CASE=w7, options: ARGS=--quick (bench/README.md)
	@scripts/bench "$(CASE)" $(ARGS)

lint: lint.rust lint.mix lint.web ## Check the formatting, and compile and lint with warnings as errors

lint.mix: build ## Check the formatting of the Elixir, and compile it with warnings as errors
	@echo "mix format, mix compile"
	@mix format --check-formatted
	@cd $(plugin) && mix format --check-formatted
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

# The types and the formatting of the playground.
lint.web: web $(browser_ready)
	@echo "tsc, prettier"
	@cd playground && npm run --silent lint

audit: $(node_ready) ## Check the licenses, the sources and the advisories of all dependencies
	@scripts/audit

dialyzer: build ## Check the types with Dialyzer
	@scripts/dialyzer

docs: build ## Build the documentation as Hex publishes it, in _build/docs
	@scripts/docs

fmt: $(ready) $(browser_ready) ## Format all code
	@mix format
	@cd $(plugin) && mix format
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

release: $(ready) $(report) broker ## Build the package, the archives of the NIF for this system (or TARGETS) and the plugin for RabbitMQ, in _build/release
ifeq ($(shell uname -sm),Linux x86_64)
	@scripts/setup aarch64
endif
	@MIX_ENV=dev mix be_tree.release $(addprefix --target=,$(TARGETS))
	@mkdir -p _build/release/rabbitmq && cp _build/broker/*.ez _build/release/rabbitmq/

release.folders: build.test ## Write the folders and images of this version, which the tests of later versions open
	@MIX_ENV=test mix run -e 'BeTree.Test.ReleaseFolders.archive!()'

clean: ## Delete all builds; the next build takes minutes
	@rm -rf _build wasm/target
